"""Times calls across nodes, which are network namespaces of this machine, and those of rivals.

    python bench/rails.py --nodes 2 --out out/rails-2x2.json

tools/nodes.sh makes nodes of two cards each, every card limited to the same rate. Each has two
ranks, or with `--ranks 1` one, which then uses both cards. One job for each form of the rival calls
both libraries in turn (`sennit bench --against` does the same on one machine):

    ob1    Open MPI over TCP, its default without UCX
    ucx    Open MPI over UCX
    tuned  the same; messages of all sizes are sent eagerly, over both cards
    mpich  MPICH over UCX
    gloo   Gloo, of PyTorch

`bound_us` of a row is the time of its bytes on the busiest wire. The bytes that each card sent are
counted in a job of its own and compared with what the schedule says. Ends with status 77 where
the machine cannot have such nodes, and a line says why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import sennit
from sennit.cli.bench_document import document
from sennit.cli.rivals import gloo, mpi

HERE = Path(__file__).resolve().parent
NODES_TOOL = HERE.parent / "tools/nodes.sh"
sys.path.append(str(HERE.parent / "tools"))
import result_files

RANKS = int(os.environ.get("BENCH_RAILS_RANKS", "2"))
"""Of a node."""
CARDS_A_NODE = 2
CARDS = ",".join(f"rail{k}" for k in range(CARDS_A_NODE))
MBIT = {2: 800, 4: 400}
"""Rate of a card by nodes: all cards together take less than half of what the cores could carry."""
COLLECTIVES = ("all_gather", "all_to_all", "all_reduce", "broadcast")
SIZES = tuple((16 << 10) * 4**i for i in range(5))
"""Bytes of a rank: what it sends, of all_to_all to one rank."""
SMALL, MORE = 64 << 10, 20
"""Up to so many bytes, so many times as many samples: it matters when ranks wake."""
PER_RANK = {"all_gather", "all_to_all"}
OB1 = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,sm,self", "--mca", "btl_tcp_if_include", CARDS]
UCX = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
UCX_CARDS = {"UCX_TLS": "tcp,self,sm", "UCX_NET_DEVICES": CARDS}


class Form(NamedTuple):
    """A rival, words for its launcher, and variables for its ranks."""

    rival: str
    words: list[str]
    environment: dict[str, str]
    before: tuple[str, ...] = ()


FORMS = {
    "ob1": Form("openmpi", OB1, {}),
    "ucx": Form("openmpi", UCX, UCX_CARDS),
    "tuned": Form(
        "openmpi", UCX, {**UCX_CARDS, "UCX_RNDV_THRESH": "inf", "UCX_MAX_EAGER_RAILS": "2"}
    ),
    # It polls and never yields: of real-time ranks that outnumber the cores, none would run
    # before the slice of another ends.
    "mpich": Form("mpich", [], UCX_CARDS, ("chrt", "--other", "0")),
    "gloo": Form("gloo", [], {"GLOO_SOCKET_IFNAME": CARDS, "OMP_NUM_THREADS": "1"}),
}
OWN = {"SENNIT_ROOT": "node0", "SENNIT_RAILS": CARDS}
"""Variables for the library in every job."""
WRONG = 1
"""Status of a job with wrong elements; its rows say which, and of whom."""
TCP_FORMS = {"openmpi": "ob1", "mpich": "mpich"}
"""Of each MPI, the form of a program that is not compared with others."""
COUNTED_CALLS = 16
COUNTED_BYTES = 1 << 20


def bytes_per_card(collective: str, nodes: int, size: int) -> float:
    """What the busiest card has to send or to receive at least, for `size` bytes of a rank."""
    return {
        "all_gather": (nodes - 1) * RANKS * size,
        "all_to_all": (nodes - 1) * RANKS * RANKS * size,
        "all_reduce": 2 * (nodes - 1) / nodes * size,
        "broadcast": size,
    }[collective] / CARDS_A_NODE


def order(collective: str, nodes: int, sizes: list[int], samples: int) -> dict[str, Any]:
    """What the rank program shall do."""
    parts = nodes * RANKS if collective in PER_RANK else 1
    return {
        "collective": collective,
        "sizes": [size * parts for size in sizes],
        "in_place": False,
        "iterations": samples,
        "warmup": 2,
        "slow_seconds": 4,
    }


def orders(arguments: argparse.Namespace, one_buffer: frozenset[str]) -> list[dict[str, Any]]:
    """All of them; calls that the rival has only in place are in place."""
    made = []
    for collective in arguments.collectives:
        sizes = [*((8, 1024) if collective == "all_reduce" else ()), *arguments.sizes]
        small = [size for size in sizes if size <= SMALL]
        large = [size for size in sizes if size > SMALL]
        for some, samples in ((small, arguments.samples * MORE), (large, arguments.samples)):
            if some:
                one = order(collective, arguments.nodes, some, samples)
                one["in_place"] = collective in one_buffer
                one["algorithm"] = dict(arguments.algorithm).get(collective, "")
                made.append(one)
    return made


def launcher_of_openmpi(form: Form, installed: mpi.Mpi, nodes: int) -> list[str]:
    """In node 0."""
    hosts = ",".join(f"node{node}:{RANKS}" for node in range(nodes))
    environment = environment_of(form, installed)
    return [
        str(installed.prefix / "bin/mpirun"),
        *installed.settings(nodes * RANKS + os.cpu_count()),
        *("--prtemca", "plm_ssh_agent", f"{NODES_TOOL} rsh"),
        *("--prtemca", "prte_if_include", "eth0"),
        *("--host", hosts, "-n", str(nodes * RANKS), "--bind-to", "none"),
        *("--mca", "mpi_yield_when_idle", "1", *form.words),
        *(word for name, value in environment.items() for word in ("-x", f"{name}={value}")),
    ]


def launcher_of_mpich(form: Form, installed: mpi.Mpi, nodes: int, folder: Path) -> list[str]:
    """In node 0."""
    shell = folder / "rsh"
    # It is called as ssh is, with -x before the host.
    shell.write_text(f'#!/bin/sh\n[ "$1" != -x ] || shift\nexec {NODES_TOOL} rsh "$@"\n')
    shell.chmod(0o755)
    hosts = ",".join(f"node{node}:{RANKS}" for node in range(nodes))
    environment = {**environment_of(form, installed), "SENNIT_KEY": "rails"}
    return [
        str(installed.prefix / "bin/mpiexec"),
        *("-launcher", "ssh", "-launcher-exec", str(shell), "-iface", "eth0"),
        *("-hosts", hosts, "-n", str(nodes * RANKS)),
        *(word for name, value in environment.items() for word in ("-genv", name, value)),
    ]


def launcher_of(form: Form, installed: mpi.Mpi, nodes: int, folder: Path) -> list[str]:
    """Starts two ranks on each node, of the program that follows."""
    words = (
        launcher_of_openmpi(form, installed, nodes)
        if form.rival == "openmpi"
        else launcher_of_mpich(form, installed, nodes, folder)
    )
    return [str(NODES_TOOL), "exec", "0", *words, *form.before]


def environment_of(form: Form, installed: mpi.Mpi) -> dict[str, str]:
    """Of the ranks of a job with an MPI."""
    own = {name: value for name, value in os.environ.items() if name.startswith("SENNIT_")}
    # A process has one UCX. Ours comes first: it has to open the one of the MPI.
    library = installed.prefix.resolve() / "lib" / installed.name / "libucp.so.0"
    if "UCX_TLS" in form.environment and library.exists():
        own["SENNIT_UCX_LIB"] = str(library)
    return {**form.environment, **own, **OWN}


def start_on_all(nodes: int, environment: dict[str, str], *program: str) -> list[str]:
    """A command that starts the ranks of a program without a launcher, on all nodes."""
    size = {"SENNIT_SIZE": str(nodes * RANKS), "SENNIT_KEY": "rails"}
    words = [f"{name}={value}" for name, value in {**OWN, **size, **environment}.items()]
    here = [sys.executable, str(HERE / "rails.py"), "--start", *program]
    return [str(NODES_TOOL), "all", "env", *words, *here]


def start_here(program: list[str]) -> int:
    """Start the ranks of this node."""
    first = int(os.environ["NODES_OWN"]) * RANKS
    starts = [
        subprocess.Popen(program, env={**os.environ, "SENNIT_RANK": str(first + k)})
        for k in range(RANKS)
    ]
    return max(start.wait() for start in starts)


def run(command: list[str]) -> list[dict[str, Any]]:
    """What a job printed."""
    print("+", *command, file=sys.stderr)
    answer = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if answer.returncode not in (0, WRONG):
        sys.exit(f"rails.py: this job ended with status {answer.returncode}:\n{answer.stdout}")
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def job_of(name: str, folder: Path, arguments: argparse.Namespace) -> list[str]:
    """The command that runs the orders with one form of a rival."""
    form = FORMS[name]
    ranks = arguments.nodes * RANKS
    job = folder / "job.json"
    program = Path(sennit.__file__).parent / "bin/sennit-rank"
    rival: mpi.MpiRival | gloo.GlooRival
    if form.rival == "gloo":
        rival = gloo.GlooRival(ranks)
        (launcher, *words) = rival.starts()[0].launcher
        command = start_on_all(
            arguments.nodes, form.environment, launcher, *words, str(program), str(job)
        )
    else:
        (installed,) = mpi.find([form.rival])
        rival = mpi.MpiRival(installed, ranks, folder)
        command = [*launcher_of(form, installed, arguments.nodes, folder), str(program), str(job)]
    text = {"orders": orders(arguments, rival.one_buffer), "rival": str(rival.library)}
    job.write_text(json.dumps(text))
    return command


def rows_of(form: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of one form of a rival."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        rows = run(job_of(form, Path(folder), arguments))
    for row in rows:
        parts = row["ranks"] if row["collective"] in PER_RANK else 1
        size = row["bytes"] // parts
        bound = bytes_per_card(row["collective"], arguments.nodes, size) / (arguments.mbit / 8)
        (theirs,) = row["rivals"]
        kept = ("collective", "algorithm", "ranks", "bytes", "samples", "time_us", "wrong")
        line = {key: row[key] for key in kept} | {"rank_bytes": size, "bound_us": bound}
        line["rival"] = {"name": form, "version": theirs["version"]}
        if not theirs["skipped"]:
            line["rival"] |= {"time_us": theirs["time_us"], "wrong": theirs["wrong"]}
            if row["wrong"] == theirs["wrong"] == 0:
                line["ratio"] = theirs["time_us"]["p50"] / row["time_us"]["p50"]
        made.append(line)
    return made


def count_bytes(nodes: int) -> list[dict[str, Any]]:
    """What the cards send in calls of each collective."""
    lines = run(start_on_all(nodes, {}, sys.executable, str(HERE / "rails.py"), "--count"))
    made = []
    for line in sorted(lines, key=lambda line: (line["collective"], line["node"])):
        expected = bytes_per_card(line["collective"], nodes, COUNTED_BYTES) * COUNTED_CALLS
        made.append({**line, "least_bytes": round(expected)})
    return made


def sent_bytes() -> list[int]:
    """Of each card of this node, until now."""
    cards = [Path(f"/sys/class/net/{card}/statistics/tx_bytes") for card in CARDS.split(",")]
    return [int(card.read_text()) for card in cards]


def count_here() -> None:
    """One rank; the first of a node prints what the cards have sent."""
    own = int(os.environ["NODES_OWN"])
    with sennit.init() as comm:
        for collective in COLLECTIVES:
            if collective == "broadcast":  # of one root: cards differ
                continue
            count = COUNTED_BYTES * (comm.size if collective == "all_to_all" else 1)
            data = bytearray(count)
            out = bytearray(COUNTED_BYTES * (comm.size if collective in PER_RANK else 1))
            call = getattr(comm, collective)
            view = memoryview(data).cast("f") if collective == "all_reduce" else data
            into = memoryview(out).cast("f") if collective == "all_reduce" else out
            comm.barrier()
            before = sent_bytes()
            for _ in range(COUNTED_CALLS):
                call(view, into)
            comm.barrier()
            if comm.rank % RANKS == 0:
                sent = [after - then for after, then in zip(sent_bytes(), before, strict=True)]
                line = {"collective": collective, "node": own, "calls": COUNTED_CALLS}
                line |= {"rank_bytes": COUNTED_BYTES, "sent_bytes": sent}
                # In one piece: all nodes write into one pipe.
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()


def show(rows: list[dict[str, Any]], counted: list[dict[str, Any]]) -> None:
    """Prints a line for each row."""
    for row in rows:
        theirs = row["rival"].get("time_us", {}).get("p50")
        print(
            f"{row['collective']:11}{row['rank_bytes']:9} B  bound {row['bound_us'] / 1e3:8.2f} ms"
            f"  ours {row['time_us']['p50'] / 1e3:8.2f} ({row['time_us']['min'] / 1e3:8.2f})"
            f"  {row['rival']['name']:5} {theirs / 1e3 if theirs else 0:8.2f}"
            f"  ratio {row.get('ratio', 0):5.2f}  {row['algorithm']}"
        )
    for line in counted:
        shares = [f"{sent / line['least_bytes']:.3f}" for sent in line["sent_bytes"]]
        print(f"{line['collective']:11} node {line['node']}: bytes of cards by least: {shares}")


def measure(arguments: argparse.Namespace) -> None:
    """In the namespaces: all jobs, and the file."""
    before = os.getloadavg()[0]
    rows = []
    for form in arguments.against:
        rows += rows_of(form, arguments)
    counted = count_bytes(arguments.nodes)
    one = " --ranks 1" if RANKS == 1 else ""
    program = f"python bench/rails.py --nodes {arguments.nodes}{one}"
    whole = document(rows) | {
        "nodes": arguments.nodes,
        "ranks_a_node": RANKS,
        "cards": CARDS_A_NODE,
        "mbit": arguments.mbit,
        "counted": counted,
        "load": [before, os.getloadavg()[0]],
    }
    result_files.write(arguments.out, {"schema": whole.pop("schema"), "program": program} | whole)
    show(rows, counted)


def enter(arguments: argparse.Namespace) -> None:
    """Starts this program again in namespaces that have the nodes."""
    os.environ |= {
        "NODES_COUNT": str(arguments.nodes),
        "NODES_RAILS": str(CARDS_A_NODE),
        "BENCH_RAILS_RANKS": str(arguments.ranks),
        "NODES_MBIT": str(arguments.mbit),
    }
    try:
        # Ranks outnumber the cores: where something else runs, each of its turns would delay all.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        print("rails.py: no real-time priority here; times vary more", file=sys.stderr)
    os.execv(NODES_TOOL, [str(NODES_TOOL), "run", sys.executable, *sys.argv, "--inside"])


def main() -> None:
    """Measures and writes."""
    if sys.argv[1:] == ["--count"]:
        count_here()
        return
    if sys.argv[1:2] == ["--start"]:
        sys.exit(start_here(sys.argv[2:]))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, choices=sorted(MBIT), default=2)
    parser.add_argument("--ranks", type=int, choices=(1, 2), default=2, help="of a node")
    parser.add_argument("--mbit", type=int, help="rate of a card; else by the number of nodes")
    parser.add_argument("--against", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--collectives", nargs="+", choices=COLLECTIVES, default=COLLECTIVES)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes of a rank")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument(
        "--algorithm",
        nargs="+",
        default=[],
        type=lambda text: tuple(text.split("=", 1)),
        metavar="COLLECTIVE=NAME",
        help="of ours, in place of the choice",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.mbit = arguments.mbit or MBIT[arguments.nodes]
    (measure if arguments.inside else enter)(arguments)


if __name__ == "__main__":
    main()
