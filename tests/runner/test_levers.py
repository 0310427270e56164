"""Each lever of a training does what it says, and nothing else."""

import dataclasses
import itertools
import math
import os
import statistics

import pytest
import torch

from runner.devices.ahead import Ahead
from runner.workloads import loaders
from runner.workloads.ladder import levers_on
from runner.workloads.training import BATCHES, READING_OPTIMIZERS
from sweeps.ladder import RUNGS
from sweeps.levers import OPTIMIZERS, SCALARS
from sweeps.parameter import Flag
from tests.runner.small import CPU, TRAINED, TWINS, Operators, losses, made_of, operators, prepared

pytestmark = pytest.mark.usefixtures("one_thread")
DTYPES = ["float32", "float64", "bfloat16"]
LOADERS = ["dataloader", "gather", "slice", "resident"]
META = torch.device("meta")


def taken(made, count):
    """Return the inputs of so many steps, each as often as it is trained on."""
    seen = []
    train = made.train
    made.train = lambda: (seen.append(made._inputs), train())[1]
    for _ in range(count):
        made.step()
    return seen


def rows_of(made, count):
    """Return the rows of so many steps; a row is told by its inputs."""
    return [[tuple(row.flatten().tolist()) for row in batch] for batch in taken(made, count)]


def flat(batches):
    return [*itertools.chain.from_iterable(batches)]


def data_of(made):
    """Return the rows of the data set in their order."""
    return [tuple(row.flatten().tolist()) for row in prepared_like(made)._loader._rows.inputs]


def prepared_like(made):
    again = prepared("mlp", loader="slice", rows=made._levers.rows)
    assert again._batch_size == made._batch_size
    return again


# -- how a batch is made


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("rows", [0, 40])
def test_every_timed_step_has_a_full_batch_of_rows_of_its_own(loader, rows):
    made = prepared("mlp", loader=loader, rows=rows)
    full = (rows or BATCHES * 16) // 16
    batches = rows_of(made, full)
    assert {len(each) for each in (*batches, *rows_of(made, 2 * full))} == {16}
    assert len(set(flat(batches))) == 16 * full  # no row twice
    assert set(flat(batches)) <= set(data_of(made))


@pytest.mark.parametrize("loader", ["slice", "resident"])
def test_batches_in_order_come_again_in_the_same_order(loader):
    made = prepared("mlp", loader=loader, rows=40)
    data = data_of(made)
    assert rows_of(made, 4) == [data[:16], data[16:32]] * 2


@pytest.mark.parametrize("loader", ["dataloader", "gather"])
def test_shuffled_batches_are_others_in_each_epoch_and_the_same_for_the_same_seed(loader):
    first = rows_of(prepared("mlp", loader=loader, rows=40), 4)
    assert flat(first[:2]) != flat(first[2:])
    torch.manual_seed(99)
    assert rows_of(prepared("mlp", loader=loader, rows=40), 4) == first
    assert set(first[0] + first[1]) != set(
        data_of(prepared("mlp", rows=40))[:32]
    )  # and the rest is not always the same


@pytest.mark.parametrize(
    "asked",
    [
        *({"loader": loader} for loader in LOADERS),
        *({"loader": loader, "transfer": "resident"} for loader in ("gather", "slice")),
    ],
)
def test_an_input_keeps_its_label(asked):
    made = prepared("mlp", accelerator=True, rows=40, **asked)
    right = dict(zip(data_of(made), prepared_like(made)._loader._rows.labels.tolist(), strict=True))
    for _ in range(4):
        made.step()
        assert [right[tuple(row.tolist())] for row in made._inputs] == made._labels.tolist()


@pytest.mark.parametrize("loader", LOADERS)
def test_an_epoch_takes_every_row_once_and_the_last_batch_is_short(loader, monkeypatch):
    made = prepared("mlp", loader=loader, rows=40, sync="every_step")
    batches, seen = [], []
    train, item = made.train, torch.Tensor.item
    made.train = lambda: (batches.append(made._inputs), train())[1]
    monkeypatch.setattr(made, "_train", lambda: (batches.append(made._inputs), train())[1])
    monkeypatch.setattr(torch.Tensor, "item", lambda loss: (seen.append(item(loss)), seen[-1])[1])
    mean = made.epoch()
    monkeypatch.undo()
    assert [len(each) for each in batches] == [16, 16, 8]
    assert sorted(tuple(row.tolist()) for batch in batches for row in batch) == sorted(data_of(made))
    assert mean == pytest.approx(statistics.fmean(seen[-3:]), rel=1e-6)  # the DataLoader reads its seed before


@pytest.mark.parametrize("family", TRAINED)
def test_every_family_can_be_trained_as_a_whole(family):
    made = prepared(family, epochs=3, rows=37)
    assert made.epochs == 3
    assert all(math.isfinite(made.epoch()) for _ in range(3))


@pytest.mark.parametrize("loader", LOADERS)
def test_only_the_dataloader_reads_row_by_row(loader, monkeypatch):
    made, reads, real = prepared("mlp", loader=loader), [], loaders.Rows.__getitem__
    monkeypatch.setattr(loaders.Rows, "__getitem__", lambda rows, index: (reads.append(index), real(rows, index))[1])
    for _ in range(BATCHES):
        made.step()
    assert sorted(reads) == ([*range(BATCHES * 16)] if loader == "dataloader" else [])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Python 3.12: other threads are at rest
def test_a_worker_of_the_dataloader_is_a_process_that_stays(monkeypatch):
    made = prepared("mlp", loader="dataloader", loader_workers=1, rows=40)
    monkeypatch.setattr(
        loaders.Rows, "__getitem__", lambda rows, index: (rows.inputs[index], torch.tensor(os.getpid()))
    )
    first, second = ({*labels.tolist()} for _ in range(2) for labels in [last_of(made._loader)])
    assert first == second != {os.getpid()}
    assert len(first) == 1
    monkeypatch.undo()
    again = prepared("mlp", loader="dataloader", loader_workers=1, rows=40)
    assert len(set(flat(rows_of(again, 2)))) == 32
    assert all(map(math.isfinite, losses(again, 2)))


def last_of(loader):
    return torch.cat([labels for _, labels in loader.visit(whole=True)])


# -- how it gets to the device


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"loader": "slice"}, 16 * (4 * 12 + 8)),
        ({"loader": "slice", "dtype": "bfloat16"}, 16 * (2 * 12 + 8)),
        ({"loader": "gather"}, 16 * (4 * 12 + 8)),
        ({"loader": "dataloader"}, 16 * (4 * 12 + 8)),
        ({"loader": "slice", "transfer": "resident"}, 0),
        ({"loader": "gather", "transfer": "resident"}, 16 * 8),  # the order of the rows
        ({"loader": "resident"}, 0),
        ({"loader": "slice", "rung": "preload"}, 16 * (4 * 12 + 8)),
        ({"loader": "dataloader", "rung": "resident"}, 0),
        ({"loader": "gather", "rung": "nosync"}, 0),
        ({"loader": "slice", "rung": "kernel"}, 0),
    ],
)
def test_what_is_sent_to_a_device_is_what_the_figure_says(asked, sent, monkeypatch):
    made = prepared("mlp", device=META, accelerator=True, **asked)
    moved = []
    real = torch.Tensor.to

    def to(tensor, *where, **how):
        made = real(tensor, *where, **how)
        moved.append(tensor.nbytes if made.device != tensor.device else 0)
        return made

    monkeypatch.setattr(torch.Tensor, "to", to)
    for _ in range(2 * BATCHES):
        made.bring()
    assert sum(moved) / (2 * BATCHES) == made.h2d_bytes_per_step == sent


@pytest.mark.parametrize("loader", ["gather", "slice"])
def test_resident_data_are_all_on_the_device_before_the_first_step(loader):
    made = prepared("mlp", device=META, loader=loader, transfer="resident", accelerator=True)
    assert (made._loader._rows.inputs.device, made._loader._rows.labels.device) == (META, META)
    made = prepared("mlp", device=META, loader="resident", accelerator=True)
    assert {each.device for batch in made._loader.visit(whole=True) for each in batch} == {META}


@pytest.mark.parametrize("loader", ["gather", "slice"])
def test_resident_and_copied_batches_are_the_same(loader):
    resident = prepared("mlp", loader=loader, transfer="resident", accelerator=True)
    assert losses(resident, 20) == losses(prepared("mlp", loader=loader), 20)


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="batches are copied to an accelerator")
@pytest.mark.parametrize("is_static", [False, True], ids=["", "static"])
@pytest.mark.parametrize("loader", ["dataloader", "gather", "slice"])
def test_overlapped_batches_are_the_same(loader, is_static):
    device = torch.accelerator.current_accelerator()
    asked = {"loader": loader, "width": 1024, "rows": 40}
    ahead = made_of("mlp", transfer="overlapped", accelerator=True, **asked)
    ahead.ahead = Ahead(device)
    ahead.prepare(device, "gpu")
    if is_static:
        ahead.use_static_inputs()
    other = prepared("mlp", device=device, accelerator=True, **asked)
    assert losses(ahead, 50) == losses(other, 50)
    if loader != "dataloader":
        assert [ahead.epoch() for _ in range(3)] == [other.epoch() for _ in range(3)]


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="memory is locked for an accelerator")
@pytest.mark.parametrize("loader", ["dataloader", "gather", "slice"])
def test_pinned_batches_lie_in_locked_memory_and_are_the_same(loader):
    device = torch.accelerator.current_accelerator()
    pinned = prepared("mlp", device=device, loader=loader, transfer="pinned", accelerator=True)
    assert all(each.is_pinned() for each in next(pinned._loader.visit(whole=False)))
    pinned.prepare(device, "gpu")
    assert losses(pinned, 20) == losses(prepared("mlp", device=device, loader=loader, accelerator=True), 20)


def test_pinned_asks_for_locked_memory_and_does_not_wait_for_the_copy(monkeypatch):
    """What this machine may not be able to lock: that it is asked to, and what is then done."""
    locked, moved, empty, to = [], [], torch.empty, torch.Tensor.to

    def room(*shape, pin_memory=False, **how):
        locked.append(pin_memory)
        return empty(*shape, **how)

    made = made_of("mlp", loader="gather", transfer="pinned", accelerator=True)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "pin_memory", lambda data: (locked.append(len(data)), data)[1])
        made.prepare(CPU, "gpu")
        assert locked == [BATCHES * 16] * 2
        locked.clear()
        patch.setattr(torch, "empty", room)
        patch.setattr(
            torch.Tensor, "to", lambda tensor, *where, **how: (moved.append(how), to(tensor, *where, **how))[1]
        )
        made.bring()
    assert locked == [True, True]
    assert moved[-2:] == [{"non_blocking": True}] * 2
    other = prepared("mlp", loader="gather")
    other.bring()
    assert torch.equal(made._inputs, other._inputs)
    assert torch.equal(made._labels, other._labels)
    rows = made_of("mlp", loader="dataloader", transfer="pinned", accelerator=True)
    rows.prepare(CPU, "gpu")
    assert rows._loader.full.pin_memory
    assert rows._loader.whole.pin_memory


# -- whether the loss is read


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ({"sync": "end"}, []),
        ({"sync": "every_step"}, [*range(12)]),
        ({"sync": "every_step", "sync_every": 3}, [2, 5, 8, 11]),
        ({"sync": "every_step", "sync_every": 5}, [4, 9]),
        ({"sync": "every_step", "rung": "nosync"}, []),
        ({"sync": "every_step", "rung": "preload"}, [*range(12)]),
    ],
)
def test_the_loss_is_read_in_the_steps_that_are_asked_for(asked, read, monkeypatch):
    made = prepared("mlp", **asked)
    reads, item = [], torch.Tensor.item
    monkeypatch.setattr(torch.Tensor, "item", lambda loss: (reads.append(step), item(loss))[1])
    for step in range(12):  # noqa: B007  (the spy looks at it)
        made.step()
    monkeypatch.undo()
    assert reads == read
    every = 0 if not read else read[0] + 1
    assert made.steps_per_cycle == max(1, every)
    assert made.syncs_per_step == (1 / every if every else 0)
    assert made.ops_per_step == prepared("mlp", sync="end").ops_per_step + made.syncs_per_step


# -- one thing after another taken away


@pytest.mark.parametrize("family", TRAINED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ways_of_feeding_and_reading_change_no_loss(family, dtype):
    asked = {"dtype": dtype, "loader": "slice", "rows": 96}
    first = losses(prepared(family, **asked), 10)
    assert len(set(first)) > 1
    for other in (
        {"rung": "preload"},
        {"rung": "resident"},
        {"rung": "nosync"},
        {"rung": "kernel"},
        {"rung": "nowait"},
        {"loader": "resident"},
        {"sync": "every_step", "sync_every": 2},
        {"transfer": "resident", "accelerator": True},
    ):
        assert losses(prepared(family, **{**asked, **other}), 10) == first


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("accelerator", [True, False])
@pytest.mark.parametrize(
    "asked", [{"loader": "dataloader"}, {"loader": "gather"}, {"loader": "slice", "dtype": "float64"}]
)
def test_a_rung_takes_away_what_it_says(rung, accelerator, asked):
    whole = made_of("mlp", sync="every_step", sync_every=2, accelerator=accelerator, **asked)._levers
    there = {"loader": "resident", "transfer": "resident", "loader_workers": None}
    ready = {"loader": "preload", "loader_workers": None}
    unread = {"sync": "end", "sync_every": None}
    last = {**(there if accelerator else ready), **unread}
    changed = {"preload": ready, "resident": there, "nosync": last, "kernel": last}.get(rung, {})
    assert levers_on(rung, whole) == dataclasses.replace(whole, **changed)


@pytest.mark.parametrize("rung", ["preload", "nosync"])
def test_what_was_on_the_device_stays_there(rung):
    made = made_of("mlp", rung=rung, loader="gather", transfer="resident", sync="every_step", accelerator=True)
    assert made.h2d_bytes_per_step == 0


@pytest.mark.parametrize(("family", "twin"), TWINS)
def test_the_rung_twin_is_the_twin_with_the_same_levers(family, twin):
    asked = {"loader": "gather", "sync": "every_step", "optimizer": "AdamW", "weight_decay": 0.2, "rows": 30}
    made, other = prepared(family, rung="twin", **asked), prepared(twin, **asked)
    assert type(made) is type(other) is not type(prepared(family))
    assert made._levers == other._levers == prepared(family, **asked)._levers
    assert losses(made, 5) == losses(other, 5)


def test_what_has_no_such_rung_says_so():
    for family, rung in (("mlp", "twin"), ("gemm", "preload"), ("gemm", "twin")):
        with pytest.raises(ValueError, match=rung):
            made_of(family, rung=rung)
    assert made_of("gemm", rung="nowait")


# -- of what type the numbers are


@pytest.mark.parametrize("family", TRAINED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_model_and_inputs_have_the_type_that_is_asked_for(family, dtype):
    made = prepared(family, dtype=dtype)
    loss = made.step()
    number = getattr(torch, dtype)
    assert loss.dtype == number
    assert {each.dtype for each in made.model.parameters()} == {number}
    assert made._inputs.dtype == (torch.int64 if family in ("transformer", "embedding") else number)


@pytest.mark.parametrize("family", TRAINED)
def test_every_type_trains_on_the_same_numbers(family):
    exact = losses(prepared(family, dtype="float64"), 10)
    assert losses(prepared(family), 10) == pytest.approx(exact, rel=1e-5)
    assert losses(prepared(family, dtype="bfloat16"), 10) == pytest.approx(exact, rel=0.05)


# -- how it is optimised


def value_of(argument):
    """Return a value of an argument that it does not have by default, and may have."""
    return True if isinstance(SCALARS[argument], Flag) else {"beta2_decay": -0.5, "d": 2.0}.get(argument, 0.25)


@pytest.mark.parametrize(("optimizer", "argument"), [(o, a) for o, arguments in OPTIMIZERS.items() for a in arguments])
def test_an_argument_reaches_its_optimizer(optimizer, argument):
    value = value_of(argument)
    more = {"momentum": 0.9} if argument == "nesterov" else {}
    made = prepared("mlp", optimizer=optimizer, lr=0.125, **more, **{argument: value})
    assert type(made._optimizer) is getattr(torch.optim, optimizer)
    (group,) = made._optimizer.param_groups
    assert (group["lr"], group[argument]) == (0.125, value)
    ordinary = prepared("mlp", optimizer=optimizer, **more)
    assert ordinary._optimizer.param_groups[0][argument] != value


WAYS = [{}, {"foreach": True}, {"fused": True}, {"weight_decay": 0.1}]


@pytest.mark.parametrize(
    ("optimizer", "how"), [(o, way) for o in OPTIMIZERS for way in WAYS if {*way} <= {*OPTIMIZERS[o]}]
)
def test_every_optimizer_trains(optimizer, how):
    for family in ("mlp", "embedding"):
        seen = losses(prepared(family, optimizer=optimizer, **how), 20)
        assert all(map(math.isfinite, seen))
        assert seen[-1] != seen[-1 - BATCHES]  # the same batch: the weights are others


@pytest.mark.parametrize("how", [{"lr": 0.5}, {"weight_decay": 0.5}, {"momentum": 0.9}, {"optimizer": "Adam"}])
def test_another_optimizer_makes_other_losses(how):
    ordinary, other = losses(prepared("mlp"), 5), losses(prepared("mlp", **how), 5)
    assert ordinary[0] == other[0]
    assert ordinary[1:] != other[1:]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_optimizers_that_read_from_the_device_are_known(optimizer):
    """A meta tensor holds no value to read."""
    made = prepared("mlp", device=META, optimizer=optimizer)
    if optimizer in READING_OPTIMIZERS:
        with pytest.raises(RuntimeError, match="item"):
            [made.step() for _ in range(12)]
        assert made.syncs_per_step is None
        assert optimizer in made.unknown_figures["syncs_per_step"]
    else:
        assert [made.step().device for _ in range(12)] == [META] * 12
        assert made.syncs_per_step == 0


def test_clipping_bounds_all_gradients_together():
    def moved(**how):
        made = prepared("mlp", lr=1.0, **how)
        before = [each.detach().clone() for each in made.model.parameters()]
        made.step()
        after = [each.detach() for each in made.model.parameters()]
        return math.sqrt(sum(float((new - old).square().sum()) for new, old in zip(after, before, strict=True)))

    free = moved()
    assert moved(clip_norm=free / 4) == pytest.approx(free / 4, rel=1e-4)
    assert moved(clip_norm=free * 4) == pytest.approx(free, rel=1e-4)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"clip_norm": 1.0}, "clipping"),
        ({"momentum": 0.9}, "optimizer"),
        ({"foreach": True}, "optimizer"),
        ({"optimizer": "Adam"}, "optimizer"),
    ],
)
def test_operators_that_no_formula_gives_are_not_stated(asked, words):
    made = prepared("mlp", **asked)
    assert made.ops_per_step is None
    assert words in made.unknown_figures["ops_per_step"]
    assert sum(operators(made).values()) != prepared("mlp").ops_per_step


@pytest.mark.parametrize("asked", [{"momentum": 0}, {"weight_decay": 0.0, "foreach": False}, {"lr": 0.3}])
def test_arguments_that_change_nothing_leave_the_operators_known(asked):
    made = prepared("mlp", **asked)
    assert sum(operators(made).values()) == made.ops_per_step
    assert made.unknown_figures == {}


def test_gathering_on_the_device_is_counted():
    made = prepared("mlp", loader="gather", transfer="resident", accelerator=True)
    made.step()
    with Operators() as seen:
        made.step()
    assert sum(seen.names.values()) == made.ops_per_step == prepared("mlp").ops_per_step + 2


# -- what a recording of a step needs


class Replay:
    """Stands in for a recording: works in the same places of memory each time, and returns the same tensor."""

    def __init__(self, made):
        self._train, self._made, self.places = made.train, made, set()
        self._loss = torch.zeros(())

    def __call__(self):
        self.places.add((self._made._inputs.data_ptr(), self._made._labels.data_ptr(), len(self._made._labels)))
        return self._loss.copy_(self._train())


@pytest.mark.parametrize("family", TRAINED)
@pytest.mark.parametrize("asked", [{"loader": "slice"}, {"loader": "gather", "sync": "every_step"}, {"rung": "nosync"}])
def test_a_replayed_training_is_the_same_training(family, asked):
    asked = {"rows": 40, **asked}
    made = prepared(family, **asked)
    made.use_static_inputs()
    made.train = replay = Replay(made)
    assert losses(made, 12) == losses(prepared(family, **asked), 12)
    assert len(replay.places) == 1


@pytest.mark.parametrize("loader", LOADERS)
def test_an_epoch_of_replays_leaves_the_short_batch_to_the_training_itself(loader):
    made = prepared("mlp", loader=loader, rows=40)
    made.use_static_inputs()
    made.train = replay = Replay(made)
    ordinary = prepared("mlp", loader=loader, rows=40)
    assert [made.epoch() for _ in range(3)] == [ordinary.epoch() for _ in range(3)]
    assert [size for _, _, size in replay.places] == [16]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_that_can_counts_its_steps_where_a_recording_can(optimizer):
    made = prepared("mlp", optimizer=optimizer)
    made.use_static_inputs()
    (group,) = made._optimizer.param_groups
    assert group.get("capturable", True)


@pytest.mark.parametrize(
    ("family", "asked", "words"),
    [
        ("branching", {}, "decides"),
        ("straight", {}, None),
        ("mlp", {"sync": "every_step", "clip_norm": 1.0}, None),
        ("mlp", {"optimizer": "ASGD"}, None),
        ("mlp", {"optimizer": "Adafactor"}, "Adafactor"),
        ("mlp", {"optimizer": "Adagrad"}, None),
        ("mlp", {"optimizer": "Adagrad", "lr_decay": 0.1}, "lr_decay"),
        ("gemm", {}, None),
    ],
)
def test_a_step_that_cannot_be_recorded_says_why(family, asked, words):
    why = made_of(family, **asked).cannot_capture
    assert why is None if words is None else words in why
