"""The picture of how many messages of which size training sends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sennit.cli.plot import STYLES
from sennit.cli.sizes import human

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def by_class(sizes: Mapping[str, int]) -> Counter[int]:
    """Messages of each class of sizes; a class is named by its least size, a power of two."""
    classes: Counter[int] = Counter()
    for size, count in sizes.items():
        classes[1 << (int(size).bit_length() - 1)] += count
    return classes


def save_messages(file: Path, rows: list[dict[str, Any]]) -> None:
    """Draw a histogram a model, with a bar for each size of buckets."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    counted = {
        (row["model"], row["bucket_mb"]): by_class(row["messages"]["step"]["all_reduce"])
        for row in rows
    }
    models = list(dict.fromkeys(model for model, _ in counted))
    buckets = sorted({bucket for _, bucket in counted})
    found = sorted({size for classes in counted.values() for size in classes})
    edges = [1 << bit for bit in range(found[0].bit_length() - 1, found[-1].bit_length())]
    figure, panels = plt.subplots(
        1, len(models), figsize=(3 + 3 * len(models), 3.8), layout="constrained", squeeze=False
    )
    width = 0.8 / len(buckets)
    for panel, model in zip(panels[0], models, strict=True):
        for index, bucket in enumerate(buckets):
            classes = counted.get((model, bucket), Counter())
            places = [
                place + width * (index - (len(buckets) - 1) / 2) for place in range(len(edges))
            ]
            heights = [classes[edge] for edge in edges]
            panel.bar(
                places, heights, width, color=STYLES[index % len(STYLES)][0], label=f"{bucket} MB"
            )
        panel.set_title(model)
        labels = [f"{human(edge)}+" for edge in edges]
        turned = {"rotation": 60, "horizontalalignment": "right", "rotation_mode": "anchor"}
        panel.set_xticks(range(len(edges)), labels, **turned)
        panel.set_xlabel("bytes of a message, by powers of two")
        panel.yaxis.get_major_locator().set_params(integer=True)
        panel.grid(visible=True, axis="y", alpha=0.3)
    panels[0][0].set_ylabel("all_reduce messages of a step")
    panels[0][-1].legend(title="buckets of DDP")
    figure.savefig(file, dpi=150)
    plt.close(figure)
