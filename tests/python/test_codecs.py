"""Codecs from Python: what they write, what they lose, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sennit
from sennit import codecs

if TYPE_CHECKING:
    from numpy.typing import NDArray

Command = Callable[..., "subprocess.CompletedProcess[str]"]

RATES = {np.float32: (4, 8, 16, 24), np.float64: (4, 8, 16, 24, 32)}
ZFP_CASES = [(real, rate) for real, rates in RATES.items() for rate in rates]
# Read here, since tests run without the variables of their surroundings.
BLOCKS = 10_000_000 if os.environ.get("SENNIT_TEST_CASES") == "all" else 100_000
CHUNK_BLOCKS = 1_000_000


def drawn(real: type, blocks: int, seed: int) -> NDArray[Any]:
    """Blocks of four of many kinds, none of which libzfp leaves undefined."""
    random = np.random.default_rng(seed)
    shape = (blocks, 4)
    scale = np.ldexp(1.0, random.integers(-20, 20, (blocks, 1)))
    normal = random.standard_normal(shape) * scale
    kinds = (
        normal,
        np.sin(0.01 * np.arange(4 * blocks)).reshape(shape) * scale,
        np.where(random.random(shape) < 0.5, 0, normal),
        np.broadcast_to(normal[:, :1], shape),
        random.integers(-4, 5, shape).astype(np.float64),
        np.ldexp(normal, random.integers(-40, 10, shape)),
        1000 + 3 * np.arange(4) + random.integers(0, 2, shape),
        np.finfo(real).max * (1 - 1e-3 * random.integers(0, 999, shape)),
        np.zeros(shape),
    )
    chosen = np.choose(random.integers(0, len(kinds), (blocks, 1)), kinds)
    return np.ascontiguousarray(chosen.astype(real).ravel())


@pytest.mark.parametrize(("real", "rate"), ZFP_CASES)
@pytest.mark.timeout(900)
def test_zfp_is_the_stream_of_libzfp_in_every_bit(real: type, rate: int) -> None:
    zfpy = pytest.importorskip("zfpy", reason="zfpy: needs the package zfpy")
    for seed, begin in enumerate(range(0, BLOCKS, CHUNK_BLOCKS)):
        x: NDArray[Any] = drawn(real, min(CHUNK_BLOCKS, BLOCKS - begin), seed)
        x = x[: x.size - seed % 4]  # the last block is a short one in three of four chunks
        ours = codecs.encode(x, f"zfp:{rate}")
        theirs = zfpy.compress_numpy(x, rate=rate, write_header=False)
        assert theirs.startswith(ours)  # libzfp fills the last word of 64 bits
        assert not theirs[len(ours) :].strip(b"\0")

        # Any bits at all, but for the flag and the exponent field that only we write.
        bits = np.random.default_rng(seed + 1000).integers(0, 256, len(ours), dtype=np.uint8)
        bits.reshape(-1, rate // 2)[:, 0] |= 3
        padded = bits.tobytes() + bytes(-bits.size % 8)
        kind = zfpy.dtype_to_ztype(x.dtype)
        expected = zfpy._decompress(padded, kind, x.shape, rate=rate)
        with np.errstate(all="ignore"):
            decoded = codecs.decode(bits, f"zfp:{rate}", real, x.size)
        assert isinstance(decoded, np.ndarray)
        np.testing.assert_array_equal(decoded.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("rate", [8, 24])
def test_complex_numbers_are_two_streams_of_zfp(rate: int) -> None:
    parts = drawn(np.float32, 50, 3)[:198].reshape(2, 99)
    x = (parts[0] + 1j * parts[1]).astype(np.complex64)
    blocks = np.frombuffer(codecs.encode(x, f"zfp:{rate}"), np.uint8).reshape(-1, 2, rate // 2)
    for stream, part in enumerate((x.real, x.imag)):
        alone = codecs.encode(np.ascontiguousarray(part), f"zfp:{rate}")
        assert blocks[:, stream].tobytes() == alone
    decoded = codecs.decode(blocks.tobytes(), f"zfp:{rate}", np.complex64, 99)
    assert isinstance(decoded, np.ndarray)
    alone = codecs.encode(np.ascontiguousarray(x.real), f"zfp:{rate}")
    np.testing.assert_array_equal(decoded.real, codecs.decode(alone, f"zfp:{rate}", np.float32, 99))


def in_blocks(x: NDArray[Any]) -> NDArray[Any]:
    """Blocks of 32, the last one filled with zeros."""
    return np.pad(x, (0, -x.size % 32)).reshape(-1, 32)


@pytest.mark.parametrize(("codec", "most"), [("q8", 127), ("q16", 32767)])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_integers_are_what_ten_lines_of_numpy_make(codec: str, most: int, real: type) -> None:
    if codec == "q8" and real == np.float64:
        return  # q8 does not take it
    x: NDArray[Any] = np.random.default_rng(5).standard_normal(1000).astype(real)
    blocks = in_blocks(x)
    half, whole = (np.uint16, np.uint32) if real == np.float32 else (np.uint32, np.uint64)
    shift = 8 * np.dtype(half).itemsize
    exact = (np.abs(blocks).max(axis=1, keepdims=True) / real(most)).view(whole)
    scales = (exact + whole(2**shift - 1)) >> whole(shift)
    factors = real(1) / (scales << whole(shift)).view(real)
    integers = np.rint(blocks * factors).astype(np.int8 if codec == "q8" else np.int16)
    expected = np.hstack([scales.astype(half).view(np.uint8), integers.view(np.uint8)])
    assert codecs.encode(x, codec) == expected.tobytes()
    decoded = integers * (scales << whole(shift)).view(real)
    np.testing.assert_array_equal(
        codecs.decode(expected, codec, real, 1000), decoded.ravel()[:1000]
    )


def test_mx8_is_what_ml_dtypes_makes_of_scaled_values() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes: needs the package ml_dtypes")
    x = np.random.default_rng(6).standard_normal(1000).astype(np.float32)
    blocks = in_blocks(x)
    exponents = np.ceil(np.log2(np.abs(blocks).max(axis=1, keepdims=True) / 448)).astype(np.int32)
    floats = np.ldexp(blocks, -exponents).astype(ml_dtypes.float8_e4m3fn)
    expected = np.hstack([(exponents + 127).astype(np.uint8), floats.view(np.uint8)])
    assert codecs.encode(x, "mx8") == expected.tobytes()


def test_exact_gives_back_every_bfloat16() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    coded = codecs.encode(sennit.typed(bits, "bfloat16"), "exact")
    decoded = codecs.decode(coded, "exact", "bfloat16", bits.size)
    assert isinstance(decoded, sennit.Typed)
    assert decoded.dtype == "bfloat16"
    np.testing.assert_array_equal(decoded.array, bits)


def test_buffers_of_any_kind_are_taken_and_nothing_is_nothing() -> None:
    x = np.arange(8, dtype=np.float32)
    coded = codecs.encode(x.data, "q8")
    assert coded == codecs.encode(x.reshape(2, 4), "q8")
    for buffer in (coded, bytearray(coded), np.frombuffer(coded, np.uint8)):
        values = codecs.decode(buffer, "q8", "float32", 8)
        assert isinstance(values, np.ndarray)
        np.testing.assert_allclose(values, x, atol=0.03)
    for codec in codecs.names():
        kind = np.float16 if codec == "exact" else np.complex128 if "32" in codec else np.complex64
        assert codecs.encode(np.empty(0, kind), codec) == b""
        empty = codecs.decode(b"", codec, kind, 0)
        assert isinstance(empty, np.ndarray)
        assert empty.shape == (0,)


def test_what_is_wrong_is_refused_by_name() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(sennit.InvalidArgument, match="no codec 'zfp:5'; there are: zfp:4"):
        codecs.encode(x, "zfp:5")
    with pytest.raises(sennit.Unsupported, match="q8 does not take int32; it takes float32"):
        codecs.encode(x.astype(np.int32), "q8")
    with pytest.raises(sennit.InvalidArgument, match="x is not C-contiguous"):
        codecs.encode(np.zeros((4, 4), np.float32)[:, :2], "q8")
    with pytest.raises(sennit.InvalidArgument, match="take 68 bytes in q8, but 34 bytes are given"):
        codecs.decode(bytes(34), "q8", np.float32, 33)
    with pytest.raises(sennit.InvalidArgument, match="damaged"):
        codecs.decode(b"\xff\xff\xff\xff", "exact", np.float16, 32)
    with pytest.raises(sennit.InvalidArgument, match="count is -1"):
        codecs.decode(b"", "q8", np.float32, -1)
    with pytest.raises(sennit.InvalidArgument, match="NumPy does not know"):
        codecs.decode(b"", "q8", "float12", 0)


def saved(folder: Path, x: NDArray[Any]) -> str:
    file = folder / "x.npy"
    np.save(file, x)
    return str(file)


def test_the_command_shows_every_codec_that_takes_the_array(
    sennit_command: Command, tmp_path: Path
) -> None:
    x = np.random.default_rng(7).standard_normal(4096).astype(np.float32)
    answer = sennit_command("codec", saved(tmp_path, x), "--json", "-")
    assert answer.returncode == 0, answer.stderr
    rows = {row["codec"]: row for row in json.loads(answer.stdout)["rows"]}
    assert set(rows) == {"zfp:4", "zfp:8", "zfp:16", "zfp:24", "q8", "q16", "mx8"}
    assert rows["zfp:8"]["coded_bytes"] == 4096
    assert rows["q8"]["bits"] == 8.5
    assert 0.005 < rows["q8"]["rms"] < 0.006
    decoded = codecs.decode(codecs.encode(x, "zfp:16"), "zfp:16", np.float32, x.size)
    assert isinstance(decoded, np.ndarray)
    errors = decoded.astype(np.float64) - x
    size = np.sqrt(np.mean(np.square(x.astype(np.float64))))
    assert rows["zfp:16"]["rms"] == pytest.approx(np.sqrt(np.mean(np.square(errors))) / size)
    assert rows["zfp:16"]["bias"] == pytest.approx(np.mean(errors) / size)
    assert all(0 < row["worst"] <= row["bound"] and row["outside"] == 0 for row in rows.values())


def test_the_command_counts_what_a_nan_takes_with_it(
    sennit_command: Command, tmp_path: Path
) -> None:
    x = np.ones(64, np.float64)
    x[5] = np.nan
    x[40] = 1e300
    answer = sennit_command("codec", saved(tmp_path, x), "--codec", "q16")
    assert answer.returncode == 0, answer.stderr
    assert "q16: 31 finite values are lost" in answer.stdout
    assert "Warning" not in answer.stderr


def test_the_command_reads_bits_of_bfloat16(sennit_command: Command, tmp_path: Path) -> None:
    x = np.random.default_rng(8).standard_normal(4096).astype(np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    answer = sennit_command("codec", saved(tmp_path, bits), "--bfloat16", "--json", "-")
    rows = {row["codec"]: row for row in json.loads(answer.stdout)["rows"]}
    assert set(rows) == {"q8", "mx8", "exact"}
    assert rows["exact"]["rms"] == 0
    assert 1.3 < rows["exact"]["ratio"] < 1.5


@pytest.mark.parametrize(
    ("x", "arguments", "words"),
    [
        (np.zeros(4, np.int32), [], "codecs are for floats"),
        (np.zeros(4, np.float32), ["--bfloat16"], "--bfloat16 needs bits in uint16"),
        (np.zeros(0, np.float32), [], "has no values"),
        (np.zeros(4, np.float32), ["--codec", "zip"], "'zip' is not one of"),
    ],
)
def test_the_command_refuses_what_it_cannot_use(
    sennit_command: Command, tmp_path: Path, x: NDArray[Any], arguments: list[str], words: str
) -> None:
    answer = sennit_command("codec", saved(tmp_path, x), *arguments)
    assert answer.returncode == 2
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_command_refuses_a_file_that_is_none_of_numpys(
    sennit_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "x.npy"
    no_array = "is no array of numbers: write it with numpy.save"
    for content, said in ((None, "cannot read"), (b"", no_array), (b"text", no_array)):
        if content is not None:
            file.write_bytes(content)
        answer = sennit_command("codec", str(file))
        assert answer.returncode == 2
        assert said in answer.stderr
        assert "Traceback" not in answer.stderr
