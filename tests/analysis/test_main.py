"""The laptop command: what it prints, writes and returns, where neither torch nor Ray is installed."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main

HERE = Path(__file__).resolve().parents[2]
#: Runs a module as `python -m` does, in a Python where torch and ray cannot be imported.
BLOCKED = """
import runpy, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "ray", "runner"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Blocker())
sys.argv = ["analysis", *sys.argv[1:]]
runpy.run_module("analysis", run_name="__main__", alter_sys=True)
"""


def lines_of(text):
    return text.strip().splitlines()


@pytest.mark.parametrize("command", [["report"], []])
def test_the_report_is_written_and_its_sentence_printed(make_study, capsys, command):
    folder = make_study()
    assert main([*command, str(folder)]) == 0
    said = capsys.readouterr()
    sentence = json.loads((folder / "crossovers.json").read_text())["crossovers"][0]["sentence"]
    assert lines_of(said.out) == [sentence, f"Report: {folder / 'report.html'}"]
    assert said.err == ""


def test_warnings_go_to_stderr(make_study, capsys):
    folder = make_study()
    (folder / "trials" / "stray.csv").write_text("")
    assert main([str(folder)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("Warning: trials/stray.csv")
    assert "stray" not in said.out


@pytest.mark.parametrize("order", [["--json", "{}"], ["{}", "--json"], ["report", "{}", "--json"]])
def test_json_prints_what_the_report_writes_and_writes_nothing(make_study, capsys, order):
    folder = make_study()
    assert main([word.format(folder) for word in order]) == 0
    printed = capsys.readouterr().out
    assert not (folder / "report.html").exists()
    assert main([str(folder)]) == 0
    assert printed == (folder / "crossovers.json").read_text()
    json.loads(printed, parse_constant=pytest.fail)


def test_csv_exports_every_row_with_lists_as_json(make_study, tmp_path):
    reasons = {"null_reasons": {"ray": "local run"}}
    folder = make_study(
        fail=lambda target, size, _: ("oom", "a\nb") if (target, size) == ("gpu", 4096) else None,
        row=lambda *_: reasons,
    )
    assert main([str(folder), "--csv", str(tmp_path / "rows.csv")]) == 0
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    ok = [row for row in rows if row["status"] == "ok"]
    assert all(len(json.loads(row["step_times_s"])) == 10 for row in ok)
    assert json.loads(ok[0]["null_reasons"]) == {"ray": "local run"}
    assert [row["step_times_s"] for row in rows if row["status"] == "oom"] == [""] * 5
    assert ok[0]["batch_size"].isdigit()
    assert (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nowhere"], "nowhere: no such folder"),
        (["report", "nowhere"], "nowhere: no such folder"),
        (["nowhere", "--json"], "nowhere: no such folder"),
        (["report"], "STUDY"),
        (["a", "b"], "b"),
        (["a", "--jsn"], "--jsn"),
        (["a", "--csv"], "--csv"),
    ],
)
def test_bad_input_is_a_line_or_two_and_exit_code_2(capsys, given, said):
    assert main(given) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert said in told.err
    assert len(lines_of(told.err)) <= 2


def test_a_csv_that_cannot_be_written_is_bad_input(make_study, tmp_path, capsys):
    assert main([str(make_study()), "--csv", str(tmp_path / "no" / "rows.csv")]) == 2
    assert "rows.csv: cannot be written" in capsys.readouterr().err


#: A CPU that takes 1 ms a unit of size, a GPU that takes 30 ms whatever the size.
TIMED = ["n,dev,ms", *(f"{size},{name},{ms}" for size in (1, 10, 100) for name, ms in (("cpu", size), ("gpu", 30)))]
AXES = ["--axis", "n", "--target", "dev", "--time", "ms", "--unit", "ms", "--baseline", "cpu", "--challenger", "gpu"]


@pytest.fixture
def timed(tmp_path):
    path = tmp_path / "timed.csv"
    path.write_text("\n".join([*TIMED, "10,gpu,"]))
    return str(path)


def test_timings_are_told_with_their_warnings_apart(timed, capsys):
    assert main(["timings", timed, *AXES]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("From n ")
    assert "measured between n 10 and 100" in " ".join(said.out.split())
    assert said.err == "Warning: 1 measurement without a value left out\n"


def test_timings_as_json_hold_the_same(timed, capsys):
    assert main(["timings", timed, *AXES]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert main(["timings", timed, *AXES, "--json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out, parse_constant=pytest.fail)
    row = told["crossovers"][0]
    assert text.startswith(row["sentence"])
    assert all(reason in text for reason in row["reasons"])
    assert told["warnings"] == ["1 measurement without a value left out"]
    assert said.err == ""


def test_every_option_of_timings_reaches_the_reading(tmp_path, capsys):
    rows = [
        f'{n},{name},{ms},10,{run},ok,{model},"a, b"\n'
        for model in ("x", "y", "z")
        for n in (0, 1, 2)
        for name, ms in (("cpu", 10**n), ("gpu", 30))
        for run in (1, 2, 3)
    ]
    (tmp_path / "t.csv").write_text("n,dev,ms,steps,run,ended,model,note\n" + "".join(rows))
    options = ["--per", "steps", "--pass", "run", "--status", "ended", "--group-by", "model", "--exponent", "10"]
    where = ["--where", 'model=x,"note=a, b"', "--where", "model=y"]
    assert main(["timings", str(tmp_path / "t.csv"), *AXES, *options, *where, "--resolution", "1e-6", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["crossovers"]
    assert [row["model"] for row in rows] == ["x", "y"]
    assert {(row["verdict"], row["bracket_low"], row["bracket_high"], row["pairs"]) for row in rows} == {
        ("crosses", 1.0, 2.0, 9)
    }


def test_rates_and_wide_rows_are_read(tmp_path, capsys):
    (tmp_path / "wide.csv").write_text("n,c,g\n1,1,3\n9,1,3\n")
    (tmp_path / "rate.csv").write_text("n,target,r\n1,cpu,1\n1,gpu,3\n9,cpu,1\n9,gpu,3\n")
    names = ["--axis", "n", "--baseline", "cpu", "--challenger", "gpu"]
    assert main(["timings", str(tmp_path / "wide.csv"), *names, "--wide", "c,g"]) == 0
    assert capsys.readouterr().out.startswith("cpu is faster than gpu everywhere from n 1 to 9.")
    assert main(["timings", str(tmp_path / "rate.csv"), *names, "--rate", "r"]) == 0
    assert capsys.readouterr().out.startswith("gpu is faster than cpu everywhere from n 1 to 9.")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["timings"], "FILE"),
        (["timings", "{}"], "--axis"),
        (["timings", "{}", *AXES, "--unit", "min"], "Invalid value for '--unit': 'min' is not one of"),
        (["timings", "{}", *AXES, "--exponent", "two"], "--exponent"),
        (["timings", "{}", *AXES, "--rate", "ms"], '--rate "ms" and --time "ms": give one of them'),
        (["timings", "{}", *AXES, "--wide", "ms"], '--wide "ms": name two columns'),
        (["timings", "{}", *AXES, "--where", "cpu"], "column=value"),
        (["timings", "{}", *AXES, "--where", "dev=tpu"], 'no row has "tpu" in column "dev" (--where)'),
        (["timings", "{}", *AXES, "--group-by", "devs"], "Did you mean dev?"),
        (["timings", "nowhere.csv", *AXES], "nowhere.csv: no such file"),
    ],
)
def test_timings_that_cannot_be_read_are_a_line_or_two_and_exit_code_2(timed, capsys, given, said):
    assert main([word.format(timed) for word in given]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert said in told.err
    assert len(lines_of(told.err)) <= 2


def test_help_teaches_by_example(capsys):
    assert main(["--help"]) == 0
    assert "report" in capsys.readouterr().out
    assert main(["report", "--help"]) == 0
    told = capsys.readouterr().out
    assert "python -m analysis results/default --json" in told
    assert "--csv FILE" in told
    assert main(["timings", "--help"]) == 0
    told = capsys.readouterr().out
    assert "python -m analysis timings one.csv --axis batch" in told
    assert "python -m analysis timings two.csv --axis rows --wide cpu_s,gpu_s" in told


def test_nothing_given_shows_the_help_and_is_bad_input(capsys):
    assert main([]) == 2
    assert "report" in capsys.readouterr().out


def test_the_command_works_without_torch_and_ray(make_study):
    folder = make_study()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED, str(folder)],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("From batch_size ")
    assert (folder / "report.html").exists()


def test_bad_input_to_the_command_shows_no_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "nowhere"], cwd=HERE, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_conclusions_need_no_drawing():
    heavy = "import sys, analysis; print(*sorted({n.split('.')[0] for n in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", heavy], cwd=HERE, capture_output=True, text=True, check=True)
    assert not {"matplotlib", "seaborn", "torch", "ray", "jinja2", "typer"} & set(done.stdout.split())


def test_json_needs_no_drawing(make_study):
    folder = make_study()
    code = (
        "import sys; from analysis.__main__ import main; code = main(sys.argv[1:]); "
        "print(code, 'matplotlib' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), "--json"], cwd=HERE, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "0 False"
    json.loads(done.stdout)


def test_a_prediction_is_a_sentence_or_json(make_study, capsys):
    folder = str(make_study())
    assert main(["predict", folder, "batch_size=300"]) == 0
    sentence = capsys.readouterr().out.strip()
    assert sentence.startswith("At batch_size 300, gpu trains this mlp model 2.")
    assert main(["predict", folder, "batch_size=300", "--json"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (told["use"], told["sentence"]) == ("gpu", sentence)
    assert main(["predict", folder, "batch_size=9999"]) == 0
    assert "so nothing is said of it" in capsys.readouterr().out


def test_the_table_is_written_with_or_without_a_prediction(make_study, capsys, tmp_path):
    folder, file = str(make_study()), tmp_path / "rule.json"
    assert main(["predict", folder, "--rule", str(file)]) == 0
    assert capsys.readouterr().out == f"Rule: {file}\n"
    table = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert (table["rules"][0]["use"], table["rules"][-1]["use"]) == ("cpu", "gpu")
    file.unlink()
    assert main(["predict", folder, "batch_size=300", "--rule", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["use"] == "gpu"
    assert json.loads(file.read_text()) == table


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "STUDY"),
        (["{}"], "to predict from study, give also batch_size=..., from 4 to 4096"),
        (["{}", "300"], '"300": expected key=value, such as batch_size=300'),
        (["{}", "batch_size="], "expected key=value"),
        (["{}", "batch_size=3", "batch_size=4"], 'batch_size is given twice: "3" and "4"'),
        (["{}", "batchsize=3"], "Did you mean batch_size?"),
        (["{}", "batch_size=-3"], 'batch_size="-3": must be a number above 0'),
        (["{}", "batch_size=3", "depth=7"], "depth=7: was not measured; this study holds depth 2 only"),
        (["{}", "batch_size=3", "--jsn"], "--jsn"),
        (["{}", "--rule", "{}/no/rule.json"], "rule.json: cannot be written"),
        (["nowhere", "batch_size=3"], "nowhere: no such folder"),
    ],
)
def test_a_prediction_that_cannot_be_made_is_a_line_or_two_and_exit_code_2(make_study, capsys, given, said):
    folder = make_study()
    assert main(["predict", *(word.format(folder) for word in given)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert said in told.err
    assert len(lines_of(told.err)) <= 2


def test_help_shows_how_to_predict(capsys):
    assert main(["predict", "--help"]) == 0
    told = capsys.readouterr().out
    assert "python -m analysis predict results/default batch_size=300" in told
    assert "--rule FILE.json" in told
    assert "[KEY=VALUE]..." in told


def test_predicting_needs_neither_torch_nor_ray_nor_drawing(make_study):
    folder = make_study()
    code = BLOCKED.replace('("torch", "ray", "runner")', '("torch", "ray", "runner", "matplotlib", "seaborn")')
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, "predict", str(folder), "batch_size=300"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("At batch_size 300, gpu ")
