"""Notes are kept as they come, and outlive a run that was killed."""

from runner.check.notes import NOTES, Notes


def test_what_was_noted_is_there_in_the_next_run(tmp_path):
    first = Notes(tmp_path)
    first.add("machine", {"host": "a"})
    first.add("measured", 1)
    first.add("measured", 2)
    again = Notes(tmp_path)
    assert again.last("machine") == {"host": "a"}
    assert again.last("measured") == 2
    assert again.last("nothing of the kind") is None
    assert again.since("measured", "machine") == [1, 2]


def test_what_was_noted_before_another_machine_is_none_of_its_own(tmp_path):
    notes = Notes(tmp_path)
    for kind, value in (("machine", "a"), ("measured", 1), ("machine", "b"), ("measured", 2)):
        notes.add(kind, value)
    assert notes.since("measured", "machine") == [2]


def test_a_line_that_was_cut_off_is_left_out_and_written_over(tmp_path):
    Notes(tmp_path).add("measured", 1)
    with (tmp_path / NOTES).open("a") as file:
        file.write('{"measured": ')
    notes = Notes(tmp_path)
    notes.add("measured", 2)
    assert Notes(tmp_path).since("measured", "machine") == [1, 2]
