"""Rewrites an SVG that matplotlib has saved in a third of its bytes, for the repository."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
COMMAND = re.compile(r" ?([A-Za-z]) ?")
FONT = re.compile(r"font-family: [^;]*")
FRACTION = re.compile(r"-?\d+\.\d+")
NAME = re.compile(r"(?<=#)[\w-]+")
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sennit",
    "font.sans-serif": ["DejaVu Sans"],
}
"""Of matplotlib: text as text, and the same names in each drawing."""

ElementTree.register_namespace("", SVG.strip("{}"))
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def small(svg: str, about: str) -> str:
    """The same picture to a tenth of a point, with each style written once and no empty groups.

    `about` becomes its description, which readers of the file find in the second line.
    """
    root = ElementTree.fromstring(svg)
    for metadata in root.findall(f"{SVG}metadata"):
        root.remove(metadata)
    description = ElementTree.Element(f"{SVG}desc")
    description.text = about
    root.insert(0, description)
    for element in root.iter():
        tighten(element)
    share_styles(root)
    shorten_names(root)
    drop_groups(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return re.sub(r">\s*<", ">\n<", text) + "\n"


def tighten(element: ElementTree.Element) -> None:
    """Rounds the numbers of an element, and takes out what changes nothing."""
    for key, value in element.attrib.items():
        rounded = FRACTION.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value)
        rounded = " ".join(rounded.split())
        element.set(key, COMMAND.sub(r"\1", rounded) if key == "d" else rounded)
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]


def share_styles(root: ElementTree.Element) -> None:
    """Makes each style a class, since most of them are of many elements."""
    classes: dict[str, str] = {}
    for element in root.iter():
        if style := element.attrib.pop("style", None):
            style = FONT.sub("font-family: 'DejaVu Sans', sans-serif", style)
            element.set("class", classes.setdefault(style, f"s{len(classes)}"))
    sheet = root.find(f"{SVG}defs/{SVG}style")
    if sheet is not None:
        rules = [f".{name}{{{style}}}" for style, name in classes.items()]
        sheet.text = "\n".join([sheet.text or "", *rules])


def shorten_names(root: ElementTree.Element) -> None:
    """Gives short names to what others refer to, and takes the names of the rest."""
    places = (LINK, "clip-path")
    links = " ".join(element.get(place, "") for element in root.iter() for place in places)
    targets = dict.fromkeys(NAME.findall(links))
    used = {name: f"i{number}" for number, name in enumerate(targets)}
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in used:
            element.set("id", used[name])
        for place in places:
            if place in element.attrib:
                element.set(place, NAME.sub(lambda found: used[found[0]], element.attrib[place]))


def drop_groups(parent: ElementTree.Element) -> None:
    """Puts what is in groups without attributes in their place."""
    for child in list(parent):
        drop_groups(child)
        if child.tag == f"{SVG}g" and not child.attrib:
            place = list(parent).index(child)
            parent[place : place + 1] = list(child)
