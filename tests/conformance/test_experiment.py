"""`cotenant experiment`: the list, the lines, the files, wrong use, and the scripts that the page holds."""

import hashlib
import json
import math
import re

import pytest

from conformance import servers
from conformance.test_cli import check_refused, run

pytestmark = pytest.mark.cotenant

FIELDS = ["experiment", "item", "plant", "paper", "ours", "unit", "tolerance", "verdict", "note"]
#: An experiment that takes a fraction of a second.
QUICK = "nyx/table_3"
ASSETS = servers.ROOT / "crates" / "harness" / "assets"


def experiment(*arguments):
    done = run("experiment", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def recomputed(line):
    """The verdict of a number with a tolerance."""
    assert line["tolerance"] is not None
    close = abs(line["ours"] - line["paper"]) <= abs(line["paper"]) * (line["tolerance"] + 1e-9)
    return "ok" if close else "miss"


def test_list_names_every_table_and_figure():
    text = experiment("list")
    names = re.findall(r"^\| (\w+/(?:table|fig)_\d+) ", text, re.MULTILINE)
    assert len(names) == len(set(names)) == 77
    assert text.splitlines()[-1].startswith("61 tables and figures with data; all: ")


def test_lines_have_the_documented_fields():
    found = lines(experiment("run", QUICK, "--quick", "--json"))
    assert found
    for line in found:
        assert list(line) == FIELDS
        assert line["experiment"] == QUICK
        assert line["plant"] in ("model", "live", "vm")
        assert line["verdict"] in ("ok", "miss", "shape", "not-applicable")
        assert all(line[name] is None or math.isfinite(line[name]) for name in ("paper", "ours", "tolerance"))


def test_verdicts_follow_from_the_numbers():
    for line in lines(experiment("run", QUICK, "--quick", "--json")):
        assert line["verdict"] == recomputed(line), line


def test_the_same_seed_gives_the_same_lines():
    first, second, other = (experiment("run", QUICK, "--quick", "--json", "--seed", seed) for seed in (3, 3, 4))
    assert first == second
    assert first != other


def test_tables_show_paper_and_ours():
    text = experiment("run", QUICK, "--quick")
    assert re.search(r"\| item +paper +ours +unit +tolerance +verdict +basis +\|", text)
    assert re.search(r"^1 experiment, \d+ numbers: \d+ ok, \d+ shape, \d+ miss, \d+ not-applicable$", text, re.MULTILINE)


def test_out_writes_lines_and_one_page(tmp_path):
    out = tmp_path / "new" / "folder"
    printed = experiment("run", QUICK, "--quick", "--json", "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "results.jsonl"]
    assert (out / "results.jsonl").read_text(encoding="utf-8") == printed
    page = (out / "index.html").read_text(encoding="utf-8")
    specs = re.findall(r'<script type="application/json" id="[\w-]+">(.*?)</script>', page, re.DOTALL)
    assert len(specs) == page.count('<div class="plot"') > 0
    for spec in specs:
        assert json.loads(spec)["data"]["values"]
    assert "default-src 'none'" in page
    assert "</html>" in page[-10:]


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("", encoding="ascii")
    done = run("experiment", "run", QUICK, "--quick", "--out", occupied)
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: {occupied}: cannot be written")


WRONG = [
    (["run", "nyx/tabel_3"], "nyx/tabel_3"),
    (["run", QUICK, "moon/fig_1"], "moon/fig_1"),
    (["run", "nyx/fig_2"], "no-data"),
    (["run"], "NAME"),
    (["run", QUICK, "--seed", "x"], "--seed"),
    (["list", "surplus"], "surplus"),
    ([], "subcommand"),
]


@pytest.mark.parametrize("arguments, word", WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_use(arguments, word):
    check_refused(run("experiment", *arguments), word)


def test_a_near_name_is_suggested():
    assert "did you mean 'nyx/table_3'?" in run("experiment", "run", "nyx/tabel_3").stderr


def test_vendored_scripts_are_what_their_list_says():
    text = (ASSETS / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"\| `([\w.-]+\.js)` \|.*\| `([0-9a-f]{64})` \|", text))
    assert sorted(listed) == sorted(path.name for path in ASSETS.glob("*.js"))
    for name, checksum in listed.items():
        assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == checksum, name
