"""What the tests of the runner share: nothing of one test is left to the next."""

import os

import pytest
import torch

from runner import process


@pytest.fixture
def same_threads():
    """What a test does to the threads and the variables of this process is undone."""
    count, variables = torch.get_num_threads(), dict(os.environ)
    yield
    torch.set_num_threads(count)
    os.environ.clear()
    os.environ.update(variables)


@pytest.fixture
def one_thread(same_threads):
    """The tensors of a test are too small for more."""
    torch.set_num_threads(1)


@pytest.fixture
def no_nursery():
    """A test that begins without a nursery, and leaves none."""
    process.close()
    yield
    process.close()


@pytest.fixture(autouse=True, scope="package")
def _no_nursery_in_the_end():
    yield
    process.close()
