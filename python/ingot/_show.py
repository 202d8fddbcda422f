"""What sessions and engines tell, as lists and dicts that print as tables and show as HTML in notebooks."""

import html


class Profile(list):
    """The ingot.ProfileRow of each step of the plan that ran. str() is a table, what lost most time first."""

    _head = ("kernel", "calls", "us a call", "share", "its floor", "floor is", "from")

    def _rows(self):
        total = sum(row.total_ms for row in self) or 1.0
        lost = sorted(self, key=lambda row: row.total_ms - row.floor_ms, reverse=True)
        return [
            (
                row.kernel,
                str(row.calls),
                f"{row.total_ms / row.calls * 1e3:.1f}" if row.calls else "",
                f"{row.total_ms / total:.1%}",
                f"{row.floor_ms / row.calls * 1e3:.2f}" if row.calls and row.bound else "",
                row.bound or "",
                row.origin or "",
            )
            for row in lost
        ]

    def __str__(self):
        return _text(self._head, self._rows())

    def _repr_html_(self):
        return _table(self._head, self._rows())


class Explanation(dict):
    """What an engine was built from and how, as `ingot inspect --json` prints it."""

    _head = ("kernel", "regions", "tactic", "bytes", "computes")

    def _rows(self):
        computes = {}
        for region in self.get("regions", ()):
            computes.setdefault(region.get("kernel"), region.get("label"))
        return [
            (k.get("name"), str(k.get("regions")), k.get("tactic"), str(k.get("bytes")), computes.get(i) or "")
            for i, k in enumerate(self.get("kernels", ()))
        ]

    def _facts(self):
        told = [(name, str(self[name])) for name in ("target", "compiler", "precision", "opt_level") if name in self]
        for what in ("inputs", "outputs"):
            told += [(what[:-1], f"{t['name']}: {t['type']}") for t in self.get(what, ())]
        return told

    def _repr_html_(self):
        return _table((), self._facts()) + _table(self._head, self._rows())


def _text(head, rows):
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in (head, *rows))


def _table(head, rows):
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    lines = ([line(head, "th")] if head else []) + [line(row, "td") for row in rows]
    return "<table>" + "".join(lines) + "</table>"
