"""Wrong use: exit status 2, one line that says what is wrong, one that says what would help."""

import os
import random
import shutil
import socket
import subprocess

import pytest

from conformance.servers import BINARY

pytestmark = pytest.mark.cotenant

HEADER = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n"


def run(*arguments):
    """The finished process."""
    return subprocess.run(
        [str(BINARY), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )


def check_refused(done, *words):
    """Status 2; `error:` and `  try:` and nothing else; the words are said."""
    said = f"\nstatus {done.returncode}\nstdout {done.stdout}\nstderr {done.stderr}"
    assert done.returncode == 2, said
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 2, f"one error line and one cure line{said}"
    assert lines[0].startswith("error: "), said
    assert lines[1].startswith("  try: "), said
    for trace in ("panicked", "backtrace", "RUST_BACKTRACE", "unwrap", "src/"):
        assert trace not in done.stderr, said
    for word in words:
        assert str(word) in lines[0], f"{word!r} is not named{said}"


FLAGS = [
    (["serve", "--no-such-flag"], "--no-such-flag"),
    (["serve", "-m", "banana"], "banana"),
    (["serve", "-m", "-1"], ""),
    (["serve", "-p", "70000"], "70000"),
    (["serve", "-t", "0"], ""),
    (["serve", "-c", "x"], "x"),
    (["serve", "-U", "11211"], ""),
    (["serve", "-I", "2g"], ""),
    (["serve", "-D", "two"], "two"),
    (["serve", "-l", "not an address", "-p", "0"], "not an address"),
    (["serve", "-o", "no_such_option"], "no_such_option"),
    (["serve", "--admin", "nowhere"], "nowhere"),
    (["serve", "surplus"], "surplus"),
    (["no-such-command"], "no-such-command"),
    (["replay"], ""),
    (["replay", "--memory", "64"], ""),
]


@pytest.mark.parametrize("arguments, word", FLAGS, ids=[" ".join(arguments) for arguments, _ in FLAGS])
def test_bad_flag(arguments, word):
    check_refused(run(*arguments), word)


#: name -> (config, word of the error line)
CONFIGS = {
    "unknown key": ('memmory = "64MiB"\n', "memmory"),
    "unknown key of a tenant": ('[tenant.a]\nprefx = "a:"\n', "prefx"),
    "number without a unit": ("memory = 64\n", "memory"),
    "text without a unit": ('memory = "64"\n', "memory"),
    "unknown unit": ('memory = "64 parsecs"\n', "parsecs"),
    "floors above the memory": (
        'memory = "64MiB"\n[tenant.a]\nprefix = "a:"\nreserved = "40MiB"\n[tenant.b]\nprefix = "b:"\nreserved = "40MiB"\n',
        "",
    ),
    "one floor above the memory": ('memory = "64MiB"\n[tenant.a]\nprefix = "a:"\nreserved = "65MiB"\n', ""),
    "two tenants with one prefix": ('[tenant.a]\nprefix = "x:"\n[tenant.b]\nprefix = "x:"\n', "x:"),
    "tenant without prefix or listener": ("[tenant.a]\n", "a"),
    "no TOML": ("memory = = 1\n", ""),
    "tier of nothing": ('tier = ["dram:0B"]\n', "a tier of 0B is too small"),
    "tier below a MiB": ('tier = ["a=file:/nowhere/tier:1023KiB"]\n', "file:/nowhere/tier:1023KiB"),
    "ideal without speeds": ('tier = ["dram:64MiB"]\nbandwidth_policy = "ideal"\n', "bandwidth_speeds names no file"),
    "memory too small": ('memory = "1MiB"\n', ""),
}


@pytest.mark.parametrize("command", [["config", "check"], ["serve", "-p", "0", "--admin", "127.0.0.1:0", "--config"]], ids=["check", "serve"])
@pytest.mark.parametrize("name", CONFIGS)
def test_bad_config(tmp_path, command, name):
    config, word = CONFIGS[name]
    path = tmp_path / "bad.toml"
    path.write_text(config, encoding="utf-8")
    check_refused(run(*command, path), word)


@pytest.mark.parametrize("command", [["config", "check"], ["serve", "-p", "0", "--config"]], ids=["check", "serve"])
def test_bad_rank_has_a_caret_below(tmp_path, command):
    path = tmp_path / "bad.toml"
    path.write_text('[tenant.a]\nprefix = "a:"\nrank = "f / (size * tt)"\n', encoding="ascii")
    done = run(*command, path)
    assert done.returncode == 2, done.stderr
    what, text, caret, cure = done.stderr.splitlines()
    assert what == f"error: {path}:3: rank: unknown variable 'tt'"
    assert text[caret.index("^") : caret.rindex("^") + 1] == "tt"
    assert cure == "  try: did you mean 't'?"


def test_bad_rank_of_a_replay_has_a_caret_below():
    done = run("replay", "no.csv", "--rank", "f / (size * t")
    assert done.returncode == 2, done.stderr
    what, text, caret, cure = done.stderr.splitlines()
    assert what == "error: --rank: a '(' is not closed"
    assert text[caret.index("^")] == "("
    assert cure == "  try: add ')'"


@pytest.mark.parametrize(
    "arguments",
    [["config", "show"], ["config", "check"], ["config", "reference"], ["experiment", "list"], ["doctor"], ["--help"], ["serve", "-i"]],
    ids=" ".join,
)
def test_an_answer_that_nobody_could_be_given_is_status_3(arguments):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([str(BINARY), *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == 3, done.stderr
    what, cure = done.stderr.splitlines()[-2:]
    assert what.startswith("error: standard output did not take") and "No space left" in what and cure.startswith("  try: ")


def test_the_doctor_says_what_would_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    for at, cure in (("file", "name a folder: --at FOLDER"), ("no", f"mkdir -p {tmp_path / 'no'}")):
        done = run("doctor", "--at", tmp_path / at)
        check_refused(done, at)
        assert done.stderr.splitlines()[1] == f"  try: {cure}"


def test_a_reader_that_closes_its_end_is_no_failure():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([str(BINARY), "config", "reference"], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_show_tells_of_variables_that_are_no_setting():
    environment = {**os.environ, "COTENANT_TREADS": "2"}
    for command in ("show", "check"):
        done = subprocess.run([str(BINARY), "config", command], env=environment, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0 and "did you mean 'COTENANT_THREADS'?" in done.stderr, done.stderr


def test_missing_config(tmp_path):
    path = tmp_path / "missing.toml"
    check_refused(run("serve", "--config", path), path)


def test_good_config_is_accepted(tmp_path):
    path = tmp_path / "good.toml"
    path.write_text('memory = "64MiB"\n[tenant.feeds]\nprefix = "feeds:"\nreserved = "8MiB"\nrank = "f / (size * t)"\n', encoding="ascii")
    done = run("config", "check", path)
    assert done.returncode == 0, done.stderr
    done = run("config", "show", "--config", path)
    assert done.returncode == 0, done.stderr
    assert "64MiB" in done.stdout
    assert "feeds" in done.stdout
    assert 'rank = "f / (size * t)"' in done.stdout


def test_address_in_use():
    """An address that the operator named and that is taken is an error that names it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for arguments in (["-p", port, "--admin", "off"], ["-p", "0", "--admin", f"127.0.0.1:{port}"]):
            done = run("serve", "-m", "64", *arguments)
            assert done.returncode in (2, 3), done.stderr
            lines = done.stderr.splitlines()
            assert lines[0].startswith("error: ")
            assert str(port) in lines[0]
            assert "panicked" not in done.stderr


def write_trace(path, rows=20_000):
    rng = random.Random(3)
    with open(path, "w", encoding="ascii") as out:
        out.write(HEADER)
        for t in range(rows):
            out.write(f"{t},a,{rng.getrandbits(40):x},20,{rng.randrange(10, 5000)},get,0\n")


@pytest.fixture
def traces(tmp_path):
    """name -> path of traces that cannot be read, each in its own way."""
    good = tmp_path / "good.csv"
    write_trace(good)
    made = {"missing": tmp_path / "missing.csv", "missing.zst": tmp_path / "missing.csv.zst", "good": good}
    noise = random.Random(5).randbytes(100_000)
    for name in ("noise.csv", "noise.csv.zst", "noise.lis"):
        made[name] = tmp_path / name
        made[name].write_bytes(noise)
    made["empty.csv"] = tmp_path / "empty.csv"
    made["empty.csv"].write_bytes(b"")
    made["short line.csv"] = tmp_path / "short_line.csv"
    made["short line.csv"].write_text(HEADER + "1,a,k,20,100,get,0\n2,a,k\n", encoding="ascii")
    made["word for number.csv"] = tmp_path / "word.csv"
    made["word for number.csv"].write_text(HEADER + "1,a,k,20,many,get,0\n", encoding="ascii")
    made["directory"] = tmp_path
    if shutil.which("zstd"):
        packed = tmp_path / "good.csv.zst"
        subprocess.run(["zstd", "-q", "-o", str(packed), str(good)], check=True)
        data = packed.read_bytes()
        made["truncated.csv.zst"] = tmp_path / "truncated.csv.zst"
        made["truncated.csv.zst"].write_bytes(data[: len(data) // 2])
        made["damaged.csv.zst"] = tmp_path / "damaged.csv.zst"
        made["damaged.csv.zst"].write_bytes(data[: len(data) // 2] + bytes(100) + data[len(data) // 2 + 100 :])
    return made


BAD_TRACES = [
    "missing", "missing.zst", "noise.csv", "noise.csv.zst", "noise.lis", "empty.csv", "short line.csv",
    "word for number.csv", "directory", "truncated.csv.zst", "damaged.csv.zst",
]


@pytest.mark.parametrize("name", BAD_TRACES)
def test_bad_trace(traces, name):
    if name not in traces:
        pytest.skip("zstd is not installed (apt-get install zstd)")
    check_refused(run("replay", traces[name], "--memory", "64MiB"), traces[name].name)


def test_good_trace_runs(traces):
    """The generator's own trace is one that replays: what the bad ones lack is what we took away."""
    done = run("replay", traces["good"], "--memory", "64MiB", "--json")
    assert done.returncode == 0, done.stderr
    assert '"hit_ratio"' in done.stdout


def test_replay_to_nobody(traces):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = run("replay", traces["good"], "--server", f"127.0.0.1:{port}")
    assert done.returncode in (2, 3), done.stderr
    assert str(port) in done.stderr
    assert done.stderr.splitlines()[0].startswith("error: ")


def test_help_and_version():
    for arguments in (["--help"], ["serve", "--help"], ["replay", "--help"], ["config", "--help"], ["--version"]):
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert done.stderr == ""


def test_under_memcached_s_name_the_usage_is_memcached_s(tmp_path):
    program = tmp_path / "memcached"
    program.symlink_to(BINARY)
    done = subprocess.run([program, "-h"], capture_output=True, text=True, timeout=30, check=True)
    assert "\nUsage: memcached [OPTIONS]\n" in done.stdout, done.stdout
    assert "\nUsage: cotenant serve [OPTIONS]\n" in run("serve", "-h").stdout


def test_where_the_administration_is_is_said_and_shown_alike_by_all():
    for arguments in ["tenant", "list"], ["group", "list"], ["plan", "--tenant", "a"]:
        done = run(*arguments, "--admin", "here")
        check_refused(done, "here")
        assert "127.0.0.1:11280" in done.stderr, done.stderr
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            done = run(*arguments, "--admin", f"localhost:{nobody.getsockname()[1]}")
        assert done.returncode == 3 and "refused" in done.stderr, done.stderr
    done = run("serve", "--admin", "0.0.0.0")
    check_refused(done, "names no port")
    assert "write 0.0.0.0:11280" in done.stderr, done.stderr


def test_a_probe_takes_a_tier_with_its_name(tmp_path):
    done = run("probe", "pm=dram:8MiB", "--time", "1s", "--profile", tmp_path / "profile", "--json")
    assert done.returncode == 0 and '"dram:8MiB"' in done.stdout, done.stderr
    check_refused(run("probe", "pm=fast:8MiB"), "fast:8MiB")
