"""Common faults: when all that has been tried fails alike, and when it does not."""

from runner.common_fault import ENOUGH, CommonFault


def watched(*endings):
    """Endings as (node, status, message)."""
    fault = CommonFault()
    for node, status, message in endings:
        fault.note(node, {"status": status, "error_message": message})
    return fault


BAD = ("a", "error", "Traceback ...\nValueError: no")


def test_the_same_fault_everywhere():
    assert watched(*[BAD] * ENOUGH).found(["a"]) == "error: Traceback ..."
    assert watched(*[BAD] * (ENOUGH - 1)).found(["a"]) == ""


def test_a_node_that_has_not_answered_may_do_better():
    assert watched(*[BAD] * ENOUGH).found(["a", "b"]) == ""
    assert watched(*[BAD] * ENOUGH, ("b", *BAD[1:])).found(["a", "b"])


def test_one_other_ending_is_enough():
    for other in (("a", "ok", ""), ("a", "error", "another"), ("a", "crashed", BAD[2]), ("a", "oom", BAD[2])):
        assert watched(other, *[BAD] * ENOUGH).found(["a"]) == ""
        assert watched(*[BAD] * ENOUGH, other).found(["a"]) == ""
