"""A function of the user over the rows of a batch."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from calve import plans
from calve.errors import CalveError, ConfigurationError
from calve.gateway import is_foreign, translate, translated
from calve.plans import Shape
from calve.transforms.sql import ROW_BY_ROW, WORDS
from calve.transforms.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARK = "_calve_rows"
_WORDS = {name: why for name, why in WORDS.items() if name != "Join"}
_ROW_BY_ROW = {
    *ROW_BY_ROW,
    *("MapInPandas", "MapInArrow", "PythonMapInArrow", "MapElements", "MapPartitions", "TypedFilter"),
    *("DeserializeToObject", "SerializeFromObject", "ResolvedHint", "CollectMetrics"),
    *("Repartition", "RepartitionByExpression", "RebalancePartitions", "Join"),
}
"""The parts of a plan that make rows of one row each; what is joined is not made of the batch."""

_PATTERN = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


class PythonTransform(Transform):
    """A function that takes a DataFrame and returns one."""

    python: Annotated[str, Field(pattern=_PATTERN)]
    """`module:function`, where modules beside the declaration's file count; needs `allow_python: true`."""

    is_code: ClassVar[bool] = True

    _directory: str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _remember_directory(self, info: ValidationInfo) -> PythonTransform:
        self._directory = (info.context or {}).get("directory")
        return self

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        is_batch = not rows.isStreaming
        given = plans.given(rows, rows.columns, _MARK) if is_batch else rows
        try:
            result = self._function()(given)
        except CalveError:
            raise
        except SystemExit as error:
            why = f"it ends the process, by sys.exit({error.code!r}); raise an exception instead"
            raise ConfigurationError(f"Cannot run '{self.python}': {why}") from error
        except Exception as error:
            raise self._translated(error) from error
        if not isinstance(result, DataFrame):
            why = f"it returned {_kind(result)}, not a DataFrame"
            raise ConfigurationError(f"Cannot run '{self.python}': {why}")
        if is_batch:
            with translated(f"run '{self.python}'"):
                self._refuse(plans.shape(result, _MARK))
        return result

    def _refuse(self, made: Shape) -> None:
        """Refuse what needs more than one row, as in SQL: a batch is not the whole stream."""
        why = next((_WORDS[name] for name in sorted(made.nodes) if name in _WORDS), None)
        unknown = sorted(made.nodes - _ROW_BY_ROW)
        if not made.reads_input:
            why = "the plan of what it returned does not read the rows that it was given"
        elif made.joins_input_to_itself:
            why = "it joins the rows to themselves, and a batch is not the whole stream"
        elif made.others and "Join" not in made.nodes:
            why = "it reads something else than the rows that it was given"
        elif why is None and unknown:
            why = f"it may need more than one row, in a step of kind {unknown[0]}"
        if why is not None:
            raise ConfigurationError(f"Cannot run '{self.python}': {why}")

    def _translated(self, error: Exception) -> CalveError:
        what = f"run '{self.python}'"
        if is_foreign(error):
            return translate(error, what)
        reason = " ".join(str(error).split())
        return ConfigurationError(f"Cannot {what}: {type(error).__name__}: {reason}")

    def _function(self) -> Any:
        from pyspark import cloudpickle

        name, _, attribute = self.python.partition(":")
        if self._directory and self._directory not in sys.path:
            sys.path.insert(0, str(self._directory))
        module = import_module(name)
        # Executors do not have the module: functions of it travel whole.
        cloudpickle.register_pickle_by_value(module)
        function = getattr(module, attribute, None)
        if not callable(function):
            raise ConfigurationError(f"Cannot run '{self.python}': '{name}' has no function '{attribute}'")
        return function


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
