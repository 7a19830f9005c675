"""A function of the user over the rows of a batch."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from calve.errors import CalveError, ConfigurationError
from calve.gateway import is_foreign, translate
from calve.transforms.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PATTERN = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


class PythonTransform(Transform):
    """A function that takes a DataFrame and returns one."""

    python: Annotated[str, Field(pattern=_PATTERN)]
    """`module:function`, where modules beside the declaration's file count; needs `allow_python: true`."""

    _directory: str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _remember_directory(self, info: ValidationInfo) -> PythonTransform:
        self._directory = (info.context or {}).get("directory")
        return self

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        try:
            result = self._function()(rows)
        except CalveError:
            raise
        except Exception as error:
            raise self._translated(error) from error
        if not isinstance(result, DataFrame):
            why = f"it returned {_kind(result)}, not a DataFrame"
            raise ConfigurationError(f"Cannot run '{self.python}': {why}")
        return result

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
