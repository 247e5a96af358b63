"""Writes the tables of README.md, of pages in docs and of bench/results/README.md.

    python tools/make_results_table.py

They are of the runs in bench/results/current.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import result_files

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- results -->\n", "<!-- /results -->"
PERFORMANCE = ROOT / "docs/performance.md"
HOST_BEGIN, HOST_END = "<!-- host results -->\n", "<!-- /host results -->"
GPU_BEGIN, GPU_END = "<!-- gpu results -->\n", "<!-- /gpu results -->"
OVERLAP = ROOT / "docs/overlap.md"
OVERLAP_BEGIN, OVERLAP_END = "<!-- overlap -->\n", "<!-- /overlap -->"
CODECS = ROOT / "docs/codecs.md"
CODECS_BEGIN, CODECS_END = "<!-- codecs -->\n", "<!-- /codecs -->"
PROGRAMS_BEGIN, PROGRAMS_END = "<!-- mpi programs -->\n", "<!-- /mpi programs -->"
NODES = ROOT / "docs/nodes.md"
NODES_BEGIN, NODES_END = "<!-- rails -->\n", "<!-- /rails -->"
NODES_GPU_BEGIN, NODES_GPU_END = "<!-- rails of gpus -->\n", "<!-- /rails of gpus -->"
MPI = ROOT / "docs/mpi.md"
MPI_BEGIN, MPI_END = "<!-- suites -->\n", "<!-- /suites -->"
RUNS = ROOT / "bench/results/README.md"
RUNS_BEGIN, RUNS_END = "<!-- runs -->\n", "<!-- /runs -->"

Renewed = Callable[[str], str]
"""The text of a page with what its tables have to say now."""

README_RUN = "host-2-cores"
CODEC_RUN = "host-2-cores-codecs"
CODEC_PROGRAMS_RUN = "codec-applications-mpi"
OVERLAP_RUNS = ("overlap-2gpu", "overlap-4gpu")
OVERLAP_SIZES = [size << 20 for size in (1, 16, 32, 64, 256)]
GPU_RUNS = ("gpu-h200x4", "gpu-h200x2")
SUITES_RUN = "mpi-suites"
SUITES = {
    "mpi4py": "mpi4py 4.1.2, whole, without spawn",
    "coll": "MPICH's `test/mpi/coll`",
    "osu": "OSU collectives",
    "imb": "IMB-MPI1, IMB-NBC",
    "heffte": "heFFTe",
    "speed3d": "heFFTe",
    "hpcg": "HPCG, miniFE, HPCC",
    "minife": "HPCG, miniFE, HPCC",
    "lammps": "LAMMPS",
    "fft": "mpi4py-fft",
    "hpcc": "HPCG, miniFE, HPCC",
}
RAIL_RUNS = ("rails-2x2", "rails-4x2")
# It never yields its core, and these ranks outnumber the cores.
NO_RAIL_RIVALS = {"mpich"}
RAIL_SIZES = (8, 64 << 10, 1 << 20)
RAIL_GPU_RUN = "rails-gpu"
RAIL_GPU_SIZES = (1 << 10, 64 << 20)
HOST_RUNS = ("host-mpi-2", "host-mpi-4", "host-mpi-8")

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]
LARGEST_ELEMENT = 8
SIZES = {8: "8 B", 4096: "4 KB", 262144: "256 KB", 2097152: "2 MB", 16777216: "16 MB"}


def cell(rows: list[dict[str, Any]], collective: str, ranks: int, size: int) -> str:
    """Median microseconds of the row whose buffer is `size` bytes, rounded up to whole elements."""
    for row in rows:
        same = row["collective"] == collective and row["ranks"] == ranks
        if same and size <= row["bytes"] < size + LARGEST_ELEMENT * ranks:
            median = float(row["time_us"]["p50"])
            return f"{median:.1f}" if median < 100 else f"{median:.0f}"
    return ""


def table(name: str) -> str:
    """One machine: a line a collective, a column a size."""
    document = result_files.read(name)
    machine = document["machine"]
    rows = document["rows"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, commit {document['commit']}, "
        f"{document['date'][:10]} ([file](bench/results/current/{name}.json)); median us of a "
        "call, every element checked:\n",
        "| collective | ranks | " + " | ".join(SIZES.values()) + " |",
        "|---|---|" + "---|" * len(SIZES),
    ]
    counts = sorted({row["ranks"] for row in rows if row["collective"] == "all_gather"})
    for collective in COLLECTIVES:
        for ranks in counts:
            cells = [cell(rows, collective, ranks, size) for size in SIZES]
            lines.append(f"| {collective} | {ranks} | " + " | ".join(cells) + " |")
    crowd = [row for row in rows if row["ranks"] > max(counts)]
    notes = [
        f"{row['collective']}{' of 8 B' if row['bytes'] else ''} {row['time_us']['p50']:.0f} us"
        for row in crowd
    ]
    which = " and ".join(str(ranks) for ranks in sorted({row["ranks"] for row in crowd}))
    words = f"{which} ranks on these {machine['cores']} cores: {', '.join(notes)}.\n"
    return "\n".join(lines) + "\n\n" + words


def between(text: str, begin: str, made: str, end: str) -> str:
    """The text with what was made between its two marks."""
    before, rest = text.split(begin)
    return before + begin + made + end + rest.split(end)[1]


def readme(text: str) -> str:
    """README with its table."""
    return between(text, BEGIN, table(README_RUN), END)


def size_name(size: int) -> str:
    """4096 as 4 KB, 4100 as 4100 B."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def gpu_table(name: str) -> str:
    """One machine: a line a size, a column a collective: our time, and the ratio to NCCL's."""
    document = result_files.read(name)
    machine = document["machine"]
    firsts, seconds = first_and_second_modes(document["rows"])
    text = (
        f"{len(machine['gpus'])} x {machine['gpus'][0]}, driver {machine['driver']}, NCCL "
        f"{document['nccl']}, commit {document['commit']}, {document['date'][:10]} "
        f"([file](../bench/results/current/{name}.json)):\n\n"
    ) + ratios([row for row in firsts if is_shown(row["bytes"])])
    if seconds:
        text += (
            "\nEnqueued on a stream, up to 16 MB, geometric means of the ratios: "
            f"{geometric_means(seconds)}.\n"
        )
    return text


def is_shown(size: int) -> bool:
    """Whether a row of the table: powers of two. A page says what other lengths take."""
    return size >= 64 and size.bit_count() == 1


def first_and_second_modes(
    rows: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Calls as nodes of graphs where there are such; what there also is of them in streams.

    Without those on registered memory.
    """
    rows = [row for row in rows if not row.get("registered")]
    in_graphs = {(r["collective"], r["bytes"]) for r in rows if r["mode"] == "graph"}
    firsts: list[dict[str, Any]] = []
    seconds: list[dict[str, Any]] = []
    for row in rows:
        is_second = row["mode"] != "graph" and (row["collective"], row["bytes"]) in in_graphs
        (seconds if is_second else firsts).append(row)
    return firsts, seconds


def time_and_ratio(row: dict[str, Any]) -> str:
    """'10.5 (**1.62**)'."""
    time = row["time_us"]["p50"]
    return f"{time:.{1 if time < 100 else 0}f} (**{row['ratio']:.2f}**)"


def ratios(rows: list[dict[str, Any]]) -> str:
    """A line a size, a column a collective: our time, and the ratio to the best rival's."""
    cells = {(row["collective"], row["bytes"]): row for row in rows}
    sizes = sorted({size for _, size in cells})
    names = [name for name in COLLECTIVES if any(name == found for found, _ in cells)]
    lines = ["| bytes | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for size in sizes:
        row = [cells.get((collective, size)) for collective in names]
        texts = [time_and_ratio(cell) if cell else "" for cell in row]
        lines.append(f"| {size_name(size)} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def means(rows: list[dict[str, Any]]) -> dict[str, str]:
    """'1.55 (least 1.17)' for each collective: the geometric mean of its ratios, and the least."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        found[row["collective"]].append(row["ratio"])
    return {
        name: f"{geometric_mean(values):.2f} (least {min(values):.2f})"
        for name, values in found.items()
    }


def geometric_means(rows: list[dict[str, Any]]) -> str:
    """'all_reduce 1.55 (least 1.17)' for each collective."""
    return ", ".join(f"{name} {mean}" for name, mean in means(rows).items())


def host_table() -> str:
    """Host ranks compared with MPI: a line a number of ranks, a column a collective."""
    documents = {name: result_files.read(name) for name in HOST_RUNS}
    first = documents[HOST_RUNS[0]]
    machine = first["machine"]
    names = [name for name in COLLECTIVES if name in means(first["rows"])]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores. Time of the faster MPI over Sennit's: "
        "geometric mean over all sizes, and the least:\n",
        "| ranks | rival | " + " | ".join(names) + " | run |",
        "|---|---|" + "---|" * len(names) + "---|",
    ]
    for name, document in documents.items():
        rows = document["rows"]
        versions = sorted({rival["version"] for row in rows for rival in row["rivals"]})
        cells = [str(rows[0]["ranks"]), ", ".join(versions)]
        cells += [means(rows)[collective] for collective in names]
        cells.append(
            f"commit {document['commit']}, {document['date'][:10]} "
            f"([file](../bench/results/current/{name}.json))"
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def performance(text: str) -> str:
    """The page on performance, with its tables."""
    text = between(text, GPU_BEGIN, "\n".join(map(gpu_table, GPU_RUNS)), GPU_END)
    return between(text, HOST_BEGIN, host_table(), HOST_END)


def load_of(row: dict[str, Any]) -> str:
    """What ran together with the calls."""
    return f"{row['beside']} for {row['load_sms']} SMs" if "load_sms" in row else row["beside"]


def overlap_table(run: str) -> str:
    """Calls of graphs together with a load: a line a load and collective, a column a size."""
    document = result_files.read(run)
    rows = [row for row in document["rows"] if row["mode"] == "graph"]
    sizes = OVERLAP_SIZES
    cells = {
        (load_of(row), row["collective"], row["bytes"]): f"{row['both_over_max']:.2f} "
        f"(**{row['ratio']:.2f}**)"
        for row in rows
    }
    lines = [
        f"{machine_name(document['machine'])}, NCCL {document['nccl']}, commit "
        f"{document['commit']}, {document['date'][:10]} "
        f"([file](../bench/results/current/{run}.json)):\n",
        "| | " + " | ".join(f"{size / 2**20:.0f} MB" for size in sizes) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for load, collective in dict.fromkeys((load, collective) for load, collective, _ in cells):
        line = [cells.get((load, collective, size), "") for size in sizes]
        lines.append(f"| {collective}, {load} | " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"


def overlap(text: str) -> str:
    """The page on calls that share a GPU, with its table."""
    return between(text, OVERLAP_BEGIN, "\n".join(map(overlap_table, OVERLAP_RUNS)), OVERLAP_END)


def number(value: float) -> str:
    """'5.5e-3', and 0 for what is lossless."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}" if int(exponent) < -1 else f"{value:.2g}"


def codec_table() -> str:
    """A line a codec: bits, errors by kind of data, bound, speed of a core."""
    document = result_files.read(CODEC_RUN)
    errors = {
        (row["codec"], row["data"], row["dtype"]): row
        for row in document["rows"]
        if row["kind"] == "error"
    }
    times = {
        (row["codec"], row["dtype"]): f"{row['encode_GBps']:.2g} / {row['decode_GBps']:.2g}"
        for row in document["rows"]
        if row["kind"] == "time"
    }
    lines = [
        "| codec | bits | normal | smooth | after an FFT | bound | type | encode / decode |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for codec in dict.fromkeys(codec for codec, _, _ in errors):
        dtype = next(
            dtype for dtype in ("float32", "bfloat16", "float64") if (codec, dtype) in times
        )
        row = errors[codec, "normal", dtype]
        cells = [f"`{codec}`", f"{row['bits']:.4g}"]
        for data, its_type in (("normal", dtype), ("smooth", dtype), ("complex", "complex64")):
            its = errors.get((codec, data, its_type))
            cells.append(number(its["rms"]) if its else "")
        cells += [number(row["bound"]), dtype, times[codec, dtype]]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append(
        f"\n{machine_name(document['machine'])}, Sennit {document['version']}, commit "
        f"{document['commit']}, {document['date'][:10]} "
        f"([file](../bench/results/current/{CODEC_RUN}.json), which has the other types)."
    )
    return "\n".join(lines) + "\n"


def codec_programs_table() -> str:
    """A line a program and rate of a card: the MPI's time over ours, and the error, by codec."""
    document = result_files.read(CODEC_PROGRAMS_RUN)
    rows = {(row["program"], row["mbit"], row["codec"]): row for row in document["rows"]}
    names = dict.fromkeys(codec for _, _, codec in rows)
    heads = ["no codec" if name == "none" else f"`{name}`" for name in names]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for program, mbit in dict.fromkeys((program, mbit) for program, mbit, _ in rows):
        its = [rows.get((program, mbit, name)) for name in names]
        cells = [f"{row['ratio']:.2f}, {number(row['error'])}" if row else "" for row in its]
        lines.append(f"| {program}, {mbit / 1e3:g} Gbit/s | {' | '.join(cells)} |")
    lines.append(
        f"\n{machine_name(document['machine'])}, commit {document['commit']}, "
        f"{document['date'][:10]} ([file](../bench/results/current/{CODEC_PROGRAMS_RUN}.json))."
    )
    return "\n".join(lines) + "\n"


def codecs(text: str) -> str:
    """The page on codecs, with its tables."""
    text = between(text, PROGRAMS_BEGIN, codec_programs_table(), PROGRAMS_END)
    return between(text, CODECS_BEGIN, codec_table(), CODECS_END)


def count_of(number: int, what: str) -> str:
    """Such as "1 rank", "2 ranks"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def rails_table(name: str) -> str:
    """A line for each collective and size: bound, our times, and the rivals' by ours."""
    document = result_files.read(name)
    rows = defaultdict(list)
    for row in document["rows"]:
        if row["rank_bytes"] in RAIL_SIZES:
            rows[row["collective"], row["rank_bytes"]].append(row)
    forms = list(dict.fromkeys(row["rival"]["name"] for row in document["rows"]))
    forms = [form for form in forms if form not in NO_RAIL_RIVALS]
    cards = document["cards"]
    ranks = document.get("ranks_a_node", cards)
    lines = [
        f"{document['nodes']} nodes of {count_of(ranks, 'rank')} and {count_of(cards, 'card')}, "
        f"{document['mbit'] // 8} MB/s a card:\n",
        f"| call | bytes of a rank | bound, ms | ours: least, median | {' | '.join(forms)} |",
        "|---" * (4 + len(forms)) + "|",
    ]
    for (collective, size), same in rows.items():
        bound = f"{same[0]['bound_us'] / 1e3:.1f}" if size >= 64 << 10 else ""
        least = min(row["time_us"]["min"] for row in same) / 1e3
        median = min(row["time_us"]["p50"] for row in same) / 1e3
        ratios = {row["rival"]["name"]: f"{row['ratio']:.2f}" for row in same if "ratio" in row}
        cells = [collective, size_name(size), bound, f"{least:.3g}, {median:.3g}"]
        cells += [ratios.get(form, "") for form in forms]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(
        f"\n{machine_name(document['machine'])}, commit {document['commit']}, "
        f"{document['date'][:10]} ([file](../bench/results/current/{name}.json)).\n"
    )
    return "\n".join(lines)


def rails_gpu_table() -> str:
    """A line for each collective: our times, and NCCL's by ours."""
    rows = result_files.read(RAIL_GPU_RUN)["rows"]
    columns = [(ranks, size) for ranks in (2, 4) for size in RAIL_GPU_SIZES]
    heads = [f"{ranks} GPUs: {size_name(size)}" for ranks, size in columns]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (1 + len(columns)) + "|"]
    for collective in dict.fromkeys(row["collective"] for row in rows):
        own = {(row["ranks"], row["bytes"]): row for row in rows if row["collective"] == collective}
        cells = [
            f"{row['median_us']:.0f} (**{row['nccl_median_us'] / row['median_us']:.2f}**)"
            for row in (own[column] for column in columns)
        ]
        lines.append(f"| {collective} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def nodes(text: str) -> str:
    """The page on several nodes, with its tables."""
    made = "\n".join(rails_table(name) for name in RAIL_RUNS)
    text = between(text, NODES_BEGIN, made, NODES_END)
    return between(text, NODES_GPU_BEGIN, rails_gpu_table(), NODES_GPU_END)


def suites_table() -> str:
    """A line a suite: what passed under each MPI without and with Sennit, and its calls there."""
    lines = [
        "| suite | MPICH: without, with | Open MPI: without, with | calls on Sennit |",
        "|---|---|---|---|",
    ]
    rows = result_files.read(SUITES_RUN)["rows"]
    for name in dict.fromkeys(SUITES.values()):
        own = [row for row in rows if SUITES[row["suite"]] == name]
        taken = sum(row["calls"]["on_sennit"] for row in own)
        every = taken + sum(row["calls"]["passed_on"] for row in own)
        if own:
            cells = [passed(own, mpi) for mpi in ("mpich", "openmpi")]
            lines.append(f"| {name} | {' | '.join(cells)} | {100 * taken / every:.0f} % |")
    return "\n".join([*lines, ""])


def passed(rows: list[dict[str, Any]], mpi: str) -> str:
    """How many tests of how many passed under an MPI."""
    outcomes = [(row["without"], row["with"]) for row in rows if row["mpi"] == mpi]
    if not outcomes:
        return "not run"
    without = sum(outcome["passed"] for outcome, _ in outcomes)
    with_sennit = sum(outcome["passed"] for _, outcome in outcomes)
    every = without + sum(len(outcome["failed"]) for outcome, _ in outcomes)
    return f"{without}, {with_sennit} of {every}"


def mpi(text: str) -> str:
    """The page on programs for MPI, with its table of suites."""
    return between(text, MPI_BEGIN, suites_table(), MPI_END)


def machine_name(machine: dict[str, Any]) -> str:
    """'2 x NVIDIA H200, Intel(R) Xeon(R) Processor, 16 cores', as far as the run says it."""
    gpus = [gpu if isinstance(gpu, str) else gpu["name"] for gpu in machine["gpus"]]
    parts = [f"{len(gpus)} x {gpus[0]}"] if gpus else []
    parts += [machine["cpu"]] if machine.get("cpu") else []
    parts += [f"{machine['cores']} cores"] if machine.get("cores") else []
    return ", ".join(parts)


def runs(text: str) -> str:
    """The page on the runs themselves, with a line for each."""
    lines = ["| run | machine | measured by | date | commit |", "|---|---|---|---|---|"]
    for name in result_files.names():
        run = result_files.read(name)
        cells = [f"[{name}](current/{name}.json)", machine_name(run["machine"])]
        commit = re.sub(r"\b([0-9a-f]{12})[0-9a-f]+", r"\1", run["commit"])
        cells += [f"`{run['program']}`", run["date"][:10], commit]
        lines.append(f"| {' | '.join(cells)} |")
    return between(text, RUNS_BEGIN, "\n".join(lines) + "\n", RUNS_END)


def main() -> None:
    """Rewrites the tables."""
    for file, renewed in (
        (README, readme),
        (PERFORMANCE, performance),
        (OVERLAP, overlap),
        (CODECS, codecs),
        (NODES, nodes),
        (MPI, mpi),
        (RUNS, runs),
    ):
        file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
