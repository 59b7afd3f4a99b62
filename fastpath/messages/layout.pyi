from typing import Any

class Layout:
    cls: type[Any]
    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    children: tuple[Layout | None, ...]
    def __init__(
        self,
        cls: type[Any],
        names: tuple[str, ...],
        defaults: tuple[Any, ...],
        children: tuple[Layout | None, ...],
    ) -> None: ...

class Message:
    __layout__: Layout
    __schema__: Any
    __message__: str
    def __init__(self, **values: Any) -> None: ...
