"""Turbulence by a pseudo-spectral method, whose box the ranks have cut into slabs.

The equations of Navier and Stokes for an incompressible fluid, from the vortices of Taylor and
Green; slabs as in Mortensen and Langtangen, "High performance Python for direct numerical
simulations of turbulent flows" (2016). A step has six transforms of vector fields, each with an
all_to_all of 12 bytes a point of the box, which is all that ranks exchange.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.fft import fft, fftfreq, ifft, irfft2, rfft2, rfftfreq

VISCOSITY = 1 / 1600
TIME_STEP = 0.005


class Slabs:
    """Transforms of vector fields of n^3 points.

    A rank has [3, n / ranks, n, n] of a field, and of its spectrum [3, n, n / ranks, n / 2 + 1].
    """

    def __init__(self, points: int) -> None:
        """Cut the box, of so many points a side."""
        self.points = points
        self.ranks = dist.get_world_size()
        self.width = points // self.ranks
        self.begin = self.width * dist.get_rank()

    def forward(self, field: Tensor) -> Tensor:
        """The spectrum of a field."""
        part = rfft2(field, dim=(2, 3)).view(3, self.width, self.ranks, self.width, -1)
        parts = self._exchanged(part.permute(2, 0, 1, 3, 4))
        return fft(parts.permute(1, 0, 2, 3, 4).reshape(3, self.points, self.width, -1), dim=1)

    def backward(self, spectrum: Tensor) -> Tensor:
        """The field of a spectrum."""
        part = ifft(spectrum, dim=1).view(3, self.ranks, self.width, self.width, -1)
        parts = self._exchanged(part.permute(1, 0, 2, 3, 4))
        whole = parts.permute(1, 2, 0, 3, 4).reshape(3, self.width, self.points, -1)
        return irfft2(whole, s=(self.points, self.points), dim=(2, 3))

    @staticmethod
    def _exchanged(parts: Tensor) -> Tensor:
        # One for each rank.
        sends = parts.contiguous()
        recvs = torch.empty_like(sends)
        dist.all_to_all_single(torch.view_as_real(recvs), torch.view_as_real(sends))
        return recvs


def simulation(points: int, device: torch.device) -> Callable[[], Tensor]:
    """A step by the method of Heun; it returns the energy in the rank's slab before it."""
    slabs = Slabs(points)
    own = slice(slabs.begin, slabs.begin + slabs.width)
    with device:
        waves = torch.meshgrid(
            fftfreq(points, 1 / points),
            fftfreq(points, 1 / points),
            rfftfreq(points, 1 / points),
            indexing="ij",
        )
        k = torch.stack(waves)[:, :, own]
        square = k.square().sum(0)
        kept = (k.abs() < points / 3).all(0)  # products of the others would alias
        along = k / square.clamp(min=1)
        place = torch.arange(points) * (2 * torch.pi / points)
        x, y, z = torch.meshgrid(place[own], place, place, indexing="ij")
        velocity = torch.stack(
            (x.sin() * y.cos() * z.cos(), -x.cos() * y.sin() * z.cos(), torch.zeros_like(x))
        )
    spectrum = slabs.forward(velocity)

    def slope(now: Tensor) -> tuple[Tensor, Tensor]:
        velocity = slabs.backward(now)
        vorticity = slabs.backward(torch.linalg.cross(1j * k, now, dim=0))
        change = slabs.forward(torch.linalg.cross(velocity, vorticity, dim=0)) * kept
        # The pressure takes what would compress.
        change -= along * (k * change).sum(0)
        return change - VISCOSITY * square * now, velocity

    def step() -> Tensor:
        first, velocity = slope(spectrum)
        second, _ = slope(spectrum + TIME_STEP * first)
        spectrum.add_(first + second, alpha=TIME_STEP / 2)
        return velocity.square().sum(0).mean() / 2

    return step
