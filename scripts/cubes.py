"""Writes the lookup tables with which the engine maps HDR and wide-gamut colours to BT.709.

    .venv/bin/python -m scripts.cubes      writes transcode/engine/codec/{pq,hlg,wide}.cube

A table maps coded BT.2020 red, green, blue to coded BT.709. Light is unchanged up to the knee of
BT.2390's curve (94 cd/m2); from there to 1000 cd/m2 it is compressed into the range below white,
which is BT.2408's 203 cd/m2. All three channels are scaled by one factor, which preserves hues;
colours outside BT.709 are clipped.
Sources: BT.2100 (PQ, HLG), BT.2390 5.4.1 (the curve), BT.2087 (the matrix), BT.1886 (gamma 2.4).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "transcode" / "engine" / "codec"
# In perceptually even steps like PQ's, 17 nodes keep greys within 2 of 219 levels.
NODES: Final = 17
_WHITE: Final = 203.0  # cd/m2
_PEAK: Final = 1000.0  # cd/m2; HLG's nominal one, and what most PQ is mastered for
_M1, _M2 = 2610 / 16384, 2523 / 32
_C1, _C2, _C3 = 3424 / 4096, 2413 / 128, 2392 / 128
_A, _B, _C = 0.17883277, 0.28466892, 0.55991073  # HLG
_LUMA: Final = (0.2627, 0.6780, 0.0593)
_TO_709: Final = (
    (1.660491, -0.587641, -0.072850),
    (-0.124550, 1.132900, -0.008349),
    (-0.018151, -0.100579, 1.118730),
)

Colour = tuple[float, float, float]


def _from_pq(code: float) -> float:
    root = code ** (1 / _M2)
    return 10_000 * (max(root - _C1, 0.0) / (_C2 - _C3 * root)) ** (1 / _M1)


def _to_pq(light: float) -> float:
    power = (light / 10_000) ** _M1
    return ((_C1 + _C2 * power) / (1 + _C3 * power)) ** _M2


def _from_hlg(code: float) -> float:
    return code * code / 3 if code <= 0.5 else (2.718281828459045 ** ((code - _C) / _A) + _B) / 12


def _light_of_pq(colour: Colour) -> Colour:
    red, green, blue = colour
    return _from_pq(red), _from_pq(green), _from_pq(blue)


def _light_of_hlg(colour: Colour) -> Colour:
    scene = [_from_hlg(code) for code in colour]
    luma = sum(weight * each for weight, each in zip(_LUMA, scene, strict=True))
    gain = _PEAK * luma**0.2 if luma else 0.0
    red, green, blue = (gain * each for each in scene)
    return red, green, blue


def _light_of_wide(colour: Colour) -> Colour:
    red, green, blue = (_WHITE * code**2.4 for code in colour)
    return red, green, blue


def _bent(light: float) -> float:
    """Return `light` compressed into the range below white (BT.2390)."""
    whole = _to_pq(_PEAK)
    place, top = min(_to_pq(light) / whole, 1.0), _to_pq(_WHITE) / whole
    knee = 1.5 * top - 0.5
    if place <= knee:
        return light
    t = (place - knee) / (1 - knee)
    place = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee)
    place += (3 * t**2 - 2 * t**3) * top
    return _from_pq(place * whole)


CUBES: Final[dict[str, tuple[Callable[[Colour], Colour], bool]]] = {
    "pq": (_light_of_pq, True),
    "hlg": (_light_of_hlg, True),
    "wide": (_light_of_wide, False),
}


def mapped(name: str, colour: Colour) -> Colour:
    """Map a coded BT.2020 colour to a coded BT.709 one, from 0 to 1."""
    light_of, bright = CUBES[name]
    light = light_of(colour)
    most = max(light)
    factor = _bent(most) / most if bright and most > 0 else 1.0
    red, green, blue = (
        sum(weight * factor * each for weight, each in zip(row, light, strict=True)) / _WHITE
        for row in _TO_709
    )
    return _coded(red), _coded(green), _coded(blue)


def _coded(light: float) -> float:
    return min(max(light, 0.0), 1.0) ** (1 / 2.4)


def table(name: str) -> str:
    """Return a table in the .cube format: red changes fastest."""
    steps = [place / (NODES - 1) for place in range(NODES)]
    lines = [f"LUT_3D_SIZE {NODES}"]
    for blue in steps:
        for green in steps:
            for red in steps:
                lines.append(" ".join(f"{each:.4f}" for each in mapped(name, (red, green, blue))))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write all tables."""
    for name in CUBES:
        (FOLDER / f"{name}.cube").write_text(table(name))


if __name__ == "__main__":
    main()
