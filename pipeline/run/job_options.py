"""The options of Beam for a job of one command, quick to look up."""

from __future__ import annotations

from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

_View = TypeVar("_View", bound=PipelineOptions)


class JobOptions(PipelineOptions):
    """Options whose views are made once.

    Beam requests several views for each step of a graph, and makes an argument parser for each of
    them: that is half of the time to construct a graph.
    """

    def view_as(self, cls: type[_View]) -> _View:
        """The view of one class of options. All views share the values."""
        # Setting an attribute would set an option.
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        found: _View = views[cls]
        return found

    def __getstate__(self) -> dict[str, Any]:
        """The state without the views, which are made again when they are needed."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_views"}
