"""Axes that write SVG by themselves, for pages: as much of matplotlib's as our plots use.

Importing and running matplotlib takes longer than all the statistics of a small report. A
:class:`Chart` is drawn on by the same functions that draw on matplotlib's axes; what it writes
needs nothing else, takes its colours from the style of the page and keeps names as text.
"""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from noracle.report import words

# Okabe and Ito's palette: told apart by everybody, and on paper by their lightness. The page swaps
# them for dark mode.
BLUE, ORANGE, INK, GREY, LINE = "#0072b2", "#b34e00", "#1b1f24", "#5c6570", "#c9d0d8"
_PROPERTIES = {
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    INK: "var(--ink)",
    GREY: "var(--grey)",
    LINE: "var(--line)",
    "#ffffff": "var(--paper)",
    "white": "var(--paper)",
}
_DASHES = {"--": "5 3", ":": "1.5 2.5"}
_STEPS = (1, 2, 2.5, 5, 10)
_MOST_TICKS = 6
_SIZE = 8.5
"""Of text, in points; a chart is drawn in points."""
_Place = Callable[[float], float]


class Chart:
    """What a page draws on; the methods mean what those of matplotlib's ``Axes`` do."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, Callable[[_Place, _Place, str], str]]] = []
        self._texts: list[dict[str, Any]] = []
        self._legend: list[tuple[str, Callable[[_Place, _Place, str], str]]] = []
        self._hatches: list[str] = []
        self._x, self._y = _Axis(), _Axis()
        self._x.grid = True
        self._legend_place = ""
        self._top = self._bottom = 0.0
        self.set_size(4.9, 1.07)

    def set_size(self, width: float, height: float, *, left: bool = False) -> None:
        """Width and height in inches; ``left`` draws the line of the y-axis."""
        self.width, self.height, self._y.line = 72 * width, 72 * height, left

    # marks

    def plot(self, xs: Iterable[float], ys: Iterable[float], form: str = "", **style: Any) -> None:
        """Draw a line through the points, markers on them, or both."""
        points = list(zip(map(float, xs), map(float, ys), strict=True))
        self._x.see(*(x for x, _ in points))
        self._y.see(*(y for _, y in points))
        dash = form if form in ("-", "--") else "none" if form else "-"
        dash = style.get("linestyle", dash)
        marker = style.get("marker") or (form if form not in ("-", "--") else "")

        def draw(at: list[tuple[float, float]]) -> str:
            line = _line(at, dash, style) if dash != "none" else ""
            return line + "".join(_marker(x, y, marker, style) for x, y in at if marker)

        def place(fx: _Place, fy: _Place, _: str) -> str:
            return draw([(fx(x), fy(y)) for x, y in points if math.isfinite(x + y)])

        self._marks.append((style.get("zorder", 2), place))
        if style.get("label"):
            ends = (0.5,) if dash == "none" else (0.0, 1.0)
            label = str(style["label"]).replace(r"\$", "$")
            self._legend.append((label, lambda fx, fy, _: draw([(fx(x), fy(0)) for x in ends])))

    def errorbar(
        self, xs: Sequence[float], ys: Sequence[float], *, xerr: Sequence[float], **style: Any
    ) -> None:
        """Draw markers with a horizontal line of so much to each side."""
        for x, y, half in zip(xs, ys, xerr, strict=True):
            self.plot([x - half, x + half], [y, y], color=style["color"], linewidth=1.5)
        self.plot(xs, ys, **style)

    def barh(
        self, y: float, width: float, *, left: float = 0.0, height: float = 0.8, **style: Any
    ) -> None:
        """Draw a bar around ``y``."""
        self._x.see(left, left + width, sticky=left)
        self._y.see(y - height / 2, y + height / 2)
        face = _colour(style.get("color", BLUE))
        edge = _colour(style.get("edgecolor", "none"))
        hatch = edge if style.get("hatch") and edge != "none" else None
        if hatch is not None and hatch not in self._hatches:
            self._hatches.append(hatch)
        look = f"fill: {face}"
        if style.get("alpha") is not None:
            look += f"; fill-opacity: {_n(style['alpha'])}"
        if style.get("linewidth"):
            look += f"; stroke: {edge}; stroke-width: {_n(style['linewidth'])}"

        def draw(fx: _Place, fy: _Place, name: str) -> str:
            x0, x1 = sorted((fx(left), fx(left + width)))
            y0, y1 = sorted((fy(y - height / 2), fy(y + height / 2)))
            box = f'x="{_n(x0)}" y="{_n(y0)}" width="{_n(x1 - x0)}" height="{_n(y1 - y0)}"'
            over = "" if hatch is None else f"fill: url(#{name}-{self._hatches.index(hatch)})"
            bar = f'<rect {box} style="{look}"/>'
            return bar + f'<rect {box} style="{over}"/>' if over else bar

        self._marks.append((1, draw))

    def axvline(self, x: float, **style: Any) -> None:
        """Draw a vertical line over the whole height."""
        self._x.see(x)

        def draw(fx: _Place, _fy: _Place, _: str) -> str:
            return _line([(fx(x), self._top), (fx(x), self._bottom)], style.get("linestyle"), style)

        self._marks.append((1.5, draw))

    def axhline(self, y: float, **style: Any) -> None:
        """Draw a horizontal line over the whole width."""
        self._y.see(y)

        def draw(fx: _Place, fy: _Place, _: str) -> str:
            at = [(fx(x), fy(y)) for x in self._x.shown()]
            return _line(at, style.get("linestyle"), style)

        self._marks.append((1.5, draw))

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write at a place of the data."""
        self._texts.append({"x": x, "y": y, "text": text, "dx": 0, "dy": 0, **style})

    def annotate(
        self, text: str, xy: tuple[float, float], xytext: tuple[float, float], **style: Any
    ) -> None:
        """Write beside a place of the data, so many points off."""
        self.text(*xy, text, **{**style, "dx": xytext[0], "dy": -xytext[1]})

    # axes

    def set_xlim(self, low: float, high: float) -> None:
        """Show x from ``low`` to ``high``."""
        self._x.limits = (low, high)

    def set_ylim(self, low: float, high: float) -> None:
        """Show y from ``low`` at the bottom to ``high`` at the top."""
        self._y.limits = (low, high)

    def invert_yaxis(self) -> None:
        """Put the first row on top."""
        low, high = self._y.shown()
        self._y.limits = (high, low)

    def set_xticks(
        self, ticks: Iterable[float], names: Sequence[str] | None = None, **style: Any
    ) -> None:
        """Put ticks at these places, with these names."""
        self._x.set_ticks(ticks, names)
        self._x.turned = bool(style.get("rotation"))

    def set_yticks(self, ticks: Iterable[float], names: Sequence[str], **_: Any) -> None:
        """Put names at these places."""
        self._y.set_ticks(ticks, names)

    def set_xscale(self, _: str) -> None:
        """Make x logarithmic."""
        self._x.log = True

    def set_yscale(self, _: str) -> None:
        """Make y logarithmic."""
        self._y.log = True

    def set_xlabel(self, text: str) -> None:
        """Write below the x-axis."""
        self._x.label = text

    def set_ylabel(self, text: str, **_: Any) -> None:
        """Write beside the y-axis."""
        self._y.label = text

    def grid(self, visible: bool = True, *, axis: str = "both", **_: Any) -> None:
        """Draw, or leave out, the lines at the ticks."""
        for one in self._axes(axis):
            one.grid = visible

    def margins(self, *, x: float) -> None:
        """Leave this share of the range free at the ends."""
        self._x.air = x

    def locator_params(self, *, axis: str, integer: bool) -> None:
        """Put ticks at whole numbers only."""
        for one in self._axes(axis):
            one.whole = integer

    def tick_params(self, *, axis: str = "both", labelsize: float = _SIZE) -> None:
        """Write the ticks this large."""
        for one in self._axes(axis):
            one.size = labelsize

    def _axes(self, named: str) -> list[_Axis]:
        return [one for name, one in (("x", self._x), ("y", self._y)) if named in (name, "both")]

    def legend(self, *, loc: str, **_: Any) -> None:
        """Name the lines: at the right for ``center left``, else above."""
        self._legend_place = "right" if loc == "center left" else "top"

    # writing

    def svg(self, *, name: str, title: str) -> str:
        """The chart as an element to put into HTML; ids begin with ``name``."""
        from markupsafe import escape

        x_ticks, y_ticks = self._x.ticks(), self._y.ticks()
        label = _wrap(self._x.label, self.width - 12)
        deep = max((_wide(t, self._x.size) for _, t in x_ticks), default=0.0)
        height = self.height + 11 * max(0, len(label) - 1)
        self._top = 18.0 if self._legend_place == "top" else 4.0
        self._bottom = height - 8 - (deep if self._x.turned else 8) - 11 * len(label)
        right = self.width - 6
        if self._legend_place == "right":
            right -= 30 + max((_wide(t, 8) for t, _ in self._legend), default=0.0)
        left = 9 + max((_wide(t, self._y.size) for _, t in y_ticks), default=0.0)
        left += 12 if self._y.label else 0
        fx, end = self._widths(left, right, [] if self._x.turned else x_ticks)
        fy = self._y.scale(self._bottom, self._top)
        parts = [*self._frame(fx, fy, x_ticks, y_ticks, end)]
        parts += [draw(fx, fy, name) for _, draw in sorted(self._marks, key=lambda m: m[0])]
        parts += [self._written(fx, fy, **said) for said in self._texts]
        middle = (fx(self._x.shown()[0]) + end) / 2
        for i, line in enumerate(label):
            half = _wide(line, _SIZE) / 2
            at = min(max(middle, half + 4), max(self.width - half - 4, self.width / 2))
            parts.append(_text(at, height - 4 - 11 * (len(label) - 1 - i), line, "middle"))
        parts += self._named_lines(end)
        patterns = "".join(
            f'<pattern id="{name}-{i}" width="5" height="5" patternUnits="userSpaceOnUse">'
            f'<path d="M-1 1 1 -1M0 5 5 0M4 6 6 4" style="stroke: {colour}; stroke-width: 1"/></pattern>'
            for i, colour in enumerate(self._hatches)
        )
        return (
            f'<svg viewBox="0 0 {_n(self.width)} {_n(height)}" role="img" '
            f'aria-labelledby="{name}-title"><title id="{name}-title">{escape(title)}</title>'
            + (f"<defs>{patterns}</defs>" if patterns else "")
            + "".join(parts)
            + "</svg>"
        )

    def _widths(
        self, left: float, right: float, ticks: Sequence[tuple[float, str]]
    ) -> tuple[_Place, float]:
        """The scale of x and where it ends, with room for all that is written beside marks."""
        end = right
        for _ in range(4):
            fx = self._x.scale(left, end)
            over = under = 0.0
            written = [(fx(v), t, self._x.size, "center") for v, t in ticks]
            for said in self._texts:
                at, side = fx(said["x"]) + said["dx"], said.get("ha", "left")
                written.append((at, said["text"], said["fontsize"], side))
            for at, text, size, side in written:
                wide = _wide(text, size)
                start = at - (wide / 2 if side == "center" else 0)
                over, under = max(over, start + wide - right), max(under, 3 - start)
            left, end = left + under, end - over
        return fx, end

    def _frame(
        self,
        fx: _Place,
        fy: _Place,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]],
        end: float,
    ) -> Iterator[str]:
        """The lines of the axes, and the ticks."""
        start = fx(self._x.shown()[0])
        thin, base = {"color": LINE, "linewidth": 0.8}, {"color": GREY, "linewidth": 0.8}
        for v, text in x_ticks:
            if self._x.grid:
                yield _line([(fx(v), self._top), (fx(v), self._bottom)], "-", thin)
            if self._x.turned:
                yield _text(fx(v) + 3, self._bottom + 5, text, "end", self._x.size, turned=True)
            else:
                yield _line([(fx(v), self._bottom), (fx(v), self._bottom + 3)], "-", base)
                yield _text(fx(v), self._bottom + 11, text, "middle", self._x.size)
        for v, text in y_ticks:
            if self._y.grid:
                yield _line([(start, fy(v)), (end, fy(v))], "-", thin)
            yield _text(start - 5, fy(v) + 0.35 * self._y.size, text, "end", self._y.size)
        yield _line([(start, self._bottom), (end, self._bottom)], "-", base)
        if self._y.line:
            yield _line([(start, self._bottom), (start, self._top)], "-", base)
        if self._y.label:
            middle = (self._top + self._bottom) / 2
            yield _text(9, middle, self._y.label, "middle", turned=True)

    def _written(self, fx: _Place, fy: _Place, **said: Any) -> str:
        """One text; with ``bbox`` on a ground of its own."""
        size, centred = said["fontsize"], said.get("ha") == "center"
        x, y = fx(said["x"]) + said["dx"], fy(said["y"]) + said["dy"]
        y += 0.35 * size if said.get("va") == "center" else 0
        wide, ground = _wide(said["text"], size), ""
        if said.get("bbox"):
            box = f'x="{_n(x - wide / 2 - 1)}" y="{_n(y - size)}" width="{_n(wide + 2)}" height="{_n(1.3 * size)}"'
            ground = f'<rect {box} style="fill: var(--paper); fill-opacity: 0.85"/>'
        return ground + _text(x, y, said["text"], "middle" if centred else "start", size)

    def _named_lines(self, end: float) -> Iterator[str]:
        """The legend."""
        x, y = (end + 10, (self._top + self._bottom) / 2 - 7 * (len(self._legend) - 1))
        if self._legend_place == "top":
            x, y = 9.0, 8.0
        for text, draw in self._legend if self._legend_place else ():
            yield draw(lambda v, x=x: x + 16 * v, lambda _, y=y: y, "")  # type: ignore[misc]
            yield _text(x + 21, y + 2.8, text, "start", 8)
            if self._legend_place == "top":
                x += 30 + _wide(text, 8)
            else:
                y += 14


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One row of :class:`Bars`: a name, an interval and what is written beside it."""

    name: str
    low: float
    high: float
    value: float = math.nan
    said: str = ""
    more: str = ""
    exact: str = ""
    look: str = ""
    """``open``: not told apart from the line; ``hint``: no promise."""
    place: str = ""
    lanes: tuple[str, ...] = ()
    """Of each bracket: ``first``, ``inner``, ``last`` or nothing."""

    @classmethod
    def of(cls, name: str, low: float, high: float, value: float, **more: Any) -> Bar:
        """One row in percent; ``low`` and ``high`` may be unknown."""
        d = words.digits_for(high - low) - 2
        known, dot = math.isfinite(low) and math.isfinite(high), math.isfinite(value)
        exact = f"{name}: " + (words.percent(value, f".{d + 1}f") if dot else "no single value")
        if known:
            exact += f", from {100 * low:.{d + 1}f} to {words.percent(high, f'.{d + 1}f')}"
        d = 0 if (low, high) == (0, 1) else d
        span = f"{100 * low:.{d}f}{'–' if low >= 0 else ' to '}{100 * high:.{d}f}"
        span = span.replace("-", "−") if known else "unknown"
        said = words.percent(value, f".{d}f").replace("-", "−") if dot else ""
        about = {"said": said, "more": span, "exact": exact, **more}
        return cls(name=name, low=low, high=high, value=value, **about)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Rows with an interval each on one axis: names and numbers are text, bars are SVG in percent
    of the width, so that a page of any width shows them sharp.
    """

    anchor: str
    title: str
    rows: Sequence[Bar]
    lines: Sequence[tuple[float, str]] = ()
    """Places of lines from top to bottom, with what is written on them."""
    percent: bool = True
    most: tuple[float, float] = (-math.inf, math.inf)
    left_out: int = 0
    _axis: _Axis = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find the axis: the values with some air, within ``most``."""
        axis = _Axis()
        for row in self.rows:
            axis.see(*(max(self.most[0], min(v, self.most[1])) for v in (row.low, row.high)))
            axis.see(row.value)
        axis.see(*(x for x, _ in self.lines))
        low, high = axis.shown()
        axis.limits = max(low, self.most[0]), min(high, self.most[1])
        object.__setattr__(self, "_axis", axis)

    def at(self, value: float) -> str:
        """Where a value lies, in percent of the width."""
        low, high = self._axis.shown()
        return _n(100 * (min(max(value, low), high) - low) / (high - low))

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Places and names of the ticks."""
        low, high = self._axis.shown()
        if self.percent:
            scaled = _Axis()
            scaled.limits = 100 * low, 100 * high
            return [(self.at(v / 100), f"{name} %") for v, name in scaled.ticks()]
        return [(self.at(v), name) for v, name in self._axis.ticks()]

    @property
    def lanes(self) -> int:
        """How many brackets lie beside each other."""
        return max((len(row.lanes) for row in self.rows), default=0)

    @property
    def wide(self) -> int:
        """Characters of the longest name, at most 30."""
        return min(32, max((math.ceil(_wide(row.name, 1.8)) for row in self.rows), default=0))


class _Axis:
    """What one axis shows, and where."""

    def __init__(self) -> None:
        self.limits: tuple[float, float] | None = None
        self.label, self.size, self.air = "", _SIZE, 0.05
        self.grid = self.log = self.whole = self.turned = self.line = False
        self._seen: list[float] = []
        self._sticky: set[float] = set()
        self._set: list[tuple[float, str]] | None = None

    def see(self, *values: float, sticky: float | None = None) -> None:
        """Take values into the limits; no air beyond those that are sticky."""
        self._seen += [v for v in values if math.isfinite(v) and (v > 0 or not self.log)]
        if sticky is not None:
            self._sticky.add(sticky)

    def set_ticks(self, ticks: Iterable[float], names: Sequence[str] | None) -> None:
        places = list(ticks)
        self._seen += places
        self._set = list(zip(places, names or _numbers(places), strict=True))

    def shown(self) -> tuple[float, float]:
        """The limits; by default those of the values, with some air."""
        if self.limits is not None:
            return self.limits
        seen = [v for v in self._seen if v > 0] if self.log else self._seen
        if not seen:
            return (1.0, 10.0) if self.log else (0.0, 1.0)
        low, high = min(seen), max(seen)
        if self.log:
            air = (high / low) ** self.air if high > low else 2.0
            return low / air, high * air
        air = self.air * (high - low) or 0.05 * max(abs(low), 1.0)
        free = [low not in self._sticky, high not in self._sticky or high == low]
        return low - air * free[0], high + air * free[1]

    def scale(self, start: float, end: float) -> _Place:
        """Where a value lies between ``start`` and ``end``."""
        of = math.log if self.log else float
        low, high = map(of, self.shown())
        return lambda v: start + (of(v) - low) / (high - low) * (end - start)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and names: those that were set, else round numbers."""
        low, high = sorted(self.shown())
        if self._set is not None:
            return [(v, name) for v, name in self._set if low <= v <= high]
        if self.log:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            for parts in ((1,), (1, 3), (1, 2, 5)):
                places = [m * 10.0**k for k in range(first, last + 1) for m in parts]
                places = [v for v in places if low <= v <= high]
                if len(places) > 2:
                    break
            places = places[:: math.ceil(len(places) / _MOST_TICKS)] if places else places
            return list(zip(places, _numbers(places), strict=True))
        size = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
        steps = [s * size for s in _STEPS if not self.whole or s * size == round(s * size)]
        step = next((s for s in steps if (high - low) / s <= _MOST_TICKS), max([*steps, 1.0]))
        first = math.ceil(low / step - 1e-9)
        places = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
        return list(zip(places, _numbers(places), strict=True))


def _numbers(values: Sequence[float]) -> list[str]:
    """Numbers in one form, with as many digits as the finest needs."""
    for digits in range(9):
        if all(abs(round(v, digits) - v) <= 1e-9 * max(1.0, abs(v)) for v in values):
            break
    return [f"{v + 0.0:,.{digits}f}".replace("-", "−") for v in values]


def _line(at: Sequence[tuple[float, float]], dash: str | None, style: Mapping[str, Any]) -> str:
    look = f"fill: none; stroke: {_colour(style['color'])}; stroke-width: {_n(style.get('linewidth', 1.5))}"
    if dash in _DASHES:
        look += f"; stroke-dasharray: {_DASHES[dash]}"
    if style.get("solid_capstyle") == "round":
        look += "; stroke-linecap: round"
    if style.get("alpha") is not None:
        look += f"; stroke-opacity: {_n(style['alpha'])}"
    path = " ".join(f"{_n(x)} {_n(y)}" for x, y in at)
    return f'<path d="M{path}" style="{look}"/>' if path else ""


def _marker(x: float, y: float, marker: str, style: Mapping[str, Any]) -> str:
    """One marker; its form carries the meaning too."""
    half = style.get("markersize", 6.0) / 2
    open_ = marker in "x|"
    face = "none" if open_ else _colour(style.get("markerfacecolor", style["color"]))
    edge = _colour(style.get("markeredgecolor", style["color"]))
    look = f"fill: {face}; stroke: {edge}; stroke-width: {_n(style.get('markeredgewidth', 1.0))}"
    if marker == "o":
        return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(half)}" style="{look}"/>'
    d = 1.4 * half
    forms = {
        "|": f"M0 {-half}V{half}",
        "x": f"M{-half} {-half} {half} {half}M{-half} {half} {half} {-half}",
        "D": f"M0 {-d:g} {d:g} 0 0 {d:g} {-d:g} 0Z",
        "s": f"M{-half} {-half}H{half}V{half}H{-half}Z",
        "^": f"M0 {-half} {half} {half} {-half} {half}Z",
    }
    return f'<path transform="translate({_n(x)} {_n(y)})" d="{forms[marker]}" style="{look}"/>'


def _text(
    x: float, y: float, text: str, anchor: str, size: float = _SIZE, *, turned: bool = False
) -> str:
    from markupsafe import escape

    place = f'x="{_n(x)}" y="{_n(y)}"'
    place += f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
    look = f"font-size: {_n(size)}px; text-anchor: {anchor}; fill: var(--ink)"
    return f'<text {place} style="{look}">{escape(text)}</text>'


def _wide(text: str, size: float) -> float:
    """About how wide a browser writes a text; rather more than less."""
    wide = 0.0
    for c in text:
        if unicodedata.east_asian_width(c) in "WF":
            wide += 1.0
        elif c in " .,:;'|!()[]ijlftrI-":
            wide += 0.4
        else:
            wide += 0.92 if c in "mwMW@%…—+−<>=" else 0.72 if c.isupper() else 0.63
    return wide * size


def _wrap(text: str, most: float) -> list[str]:
    """Lines that are no wider than ``most``."""
    lines: list[str] = []
    for word in text.split():
        if lines and _wide(f"{lines[-1]} {word}", _SIZE) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _colour(colour: str) -> str:
    return _PROPERTIES.get(colour, colour)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
