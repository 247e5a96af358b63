"""A small SVG shows what the large one shows."""

from __future__ import annotations

from xml.etree import ElementTree

import small_svg

LARGE = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="72pt" viewBox="0 0 72 36"
     xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><date>2026-11-25</date></metadata>
 <defs><style type="text/css">*{stroke-linecap: butt}</style></defs>
 <g id="figure_1">
  <g id="line_1">
   <path d="M 1.26 2.04
L 30.999 4
" clip-path="url(#p5205624d2f)" style="stroke: #0072b2; stroke-width: 1.50"/>
   <defs><path id="m709c981156" d="M 0 3 L 3 0 z"
        style="stroke: #0072b2; stroke-width: 1.50"/></defs>
   <g clip-path="url(#p5205624d2f)"><use xlink:href="#m709c981156" x="1.26" y="-0.04"/></g>
  </g>
  <text style="font-size: 10px; font-family: 'DejaVu Sans', Verdana; text-anchor: start" x="5"
        transform="rotate(-0 5.1 6)">1.23 us</text>
 </g>
 <defs><clipPath id="p5205624d2f"><rect x="0" width="40.04"/></clipPath></defs>
</svg>
"""
SMALL = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" \
width="72pt" viewBox="0 0 72 36" version="1.1">
<desc>a run</desc>
<defs>
<style type="text/css">*{stroke-linecap: butt}
.s0{stroke: #0072b2; stroke-width: 1.5}
.s1{font-size: 10px; font-family: 'DejaVu Sans', sans-serif; text-anchor: start}</style>
</defs>
<path d="M1.3 2L31 4" clip-path="url(#i0)" class="s0" />
<defs>
<path d="M0 3L3 0z" class="s0" id="i1" />
</defs>
<g clip-path="url(#i0)">
<use xlink:href="#i1" x="1.3" y="-0" />
</g>
<text x="5" class="s1">1.23 us</text>
<defs>
<clipPath id="i0">
<rect x="0" width="40" />
</clipPath>
</defs>
</svg>
"""


def test_the_picture_is_the_same_in_fewer_words() -> None:
    small = small_svg.small(LARGE, "a run")
    assert small == SMALL
    ElementTree.fromstring(small)
