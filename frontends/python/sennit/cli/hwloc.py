"""Descriptions of machines from hwloc's XML (`lstopo machine.xml`).

hwloc knows what is plugged in where, and for PCI links how fast they are. It does not know NVLink,
buses between processors, memory bandwidth or start-ups: lines for those are yours to add.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import click

_GPU_CLASSES = ("0300", "0302", "0380")
_NETWORK_CLASSES = ("0200", "0207")


@dataclass
class _Machine:
    cpus: int = 0
    gpus: list[tuple[int, float]] = field(default_factory=list)  # processor, GB/s
    nics: list[tuple[int, float]] = field(default_factory=list)


def machine_text(file: Path | None) -> str:
    """Give the text form (docs/machines.md) of the machine in an hwloc file."""
    if file is None:
        return ""
    try:
        root = ET.parse(file).getroot()
    except (OSError, ET.ParseError) as error:
        raise click.BadParameter(f"cannot read {file}: {error}") from error
    found = _Machine()
    _walk(root, found, None)
    if found.cpus == 0:
        raise click.BadParameter(f"{file} has no object of type Package; is it from lstopo?")
    lines = [
        f"machine {file.stem} Imported from hwloc",
        "source hwloc What hwloc says of PCI links",
        f"cpu 0..{found.cpus - 1}",
    ]
    for kind, devices in (("gpu", found.gpus), ("nic", found.nics)):
        if devices:
            lines.append(f"{kind} 0..{len(devices) - 1}")
        lines += [
            f"link {kind}{number} cpu{cpu} pcie {rate:g} GB/s from hwloc"
            for number, (cpu, rate) in enumerate(devices)
        ]
    # A declared vertex may not be declared twice, and links need their ends: vertices first.
    lines.sort(key=lambda line: line.startswith("link"))
    return "\n".join(lines) + "\n"


def _walk(element: ET.Element, found: _Machine, cpu: int | None) -> None:
    """Collect devices below an object; `cpu` is the processor they hang on."""
    kind = element.get("type")
    if kind == "Package":
        cpu = found.cpus
        found.cpus += 1
    if kind == "PCIDev":
        rate = float(element.get("pci_link_speed") or 0)
        device_class = (element.get("pci_type") or "").partition(" ")[0]
        if rate > 0 and device_class in _GPU_CLASSES:
            found.gpus.append((cpu or 0, rate))
        elif rate > 0 and device_class in _NETWORK_CLASSES:
            found.nics.append((cpu or 0, rate))
    for child in element.findall("object"):
        _walk(child, found, cpu)
