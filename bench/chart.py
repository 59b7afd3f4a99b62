"""A bar chart as SVG, for results of benches."""

from collections.abc import Sequence
from html import escape

ROW, BAR, LABELS, BARS = 22, 14, 420, 420
COLORS = ("#8da0cb", "#fc8d62")
"""The colours of other bars and of rayft's."""


def bars(title: str, rows: Sequence[tuple[str, float]], ours: str = "rayft") -> str:
    """One horizontal bar for each row, labelled with its value. Bars whose name contains `ours` have another colour."""
    largest = max((value for _, value in rows), default=0.0) or 1.0
    height = ROW * (len(rows) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + BARS + 80}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="{ROW - 4}" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for index, (name, value) in enumerate(rows):
        y = ROW * (index + 1) + 8
        width = max(BARS * value / largest, 1)
        parts += [
            f'<text x="{LABELS - 8}" y="{y + BAR - 3}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLORS[ours in name]}"/>',
            f'<text x="{LABELS + width + 6:.1f}" y="{y + BAR - 3}">{value:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
