"""The training workloads that ship, and what each can be asked.

Only the questions stand here, so that a sweep can be checked where torch is absent. The answers, the code
that trains, stand in `runner/workloads/`, one file a family; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.levers import DTYPE, RULES, SCALARS, levers
from sweeps.parameter import Choice, Parameter, Rule, Value, Whole


@dataclass(frozen=True, kw_only=True)
class Family:
    """A workload that ships.

    Attributes:
        summary: What it is, in a line.
        parameters: Its sizes and then its levers, by name.
        rules: What these have to be to each other.
        twin: The family that does the same arithmetic without what makes this one slow; None without one.
        twin_words: What the twin lacks.
    """

    summary: str
    parameters: Mapping[str, Parameter]
    rules: tuple[Rule, ...] = RULES
    twin: str | None = None
    twin_words: str = ""

    @property
    def usual(self) -> dict[str, Value | None]:
        """The levers at their defaults, which need not be told."""
        return {name: self.parameters[name].default for name in levers() if name in self.parameters}


_CLASSES = Whole(default=10, minimum=2, meaning="outputs of the last layer")

_LSTM: Mapping[str, Parameter] = {
    "features": Whole(default=64, meaning="inputs at each place of the sequence"),
    "hidden": Whole(default=128, meaning="units of the layer"),
    "sequence": Whole(default=32, meaning="places of a sequence"),
    "classes": _CLASSES,
    "batch_size": Whole(default=32, meaning="sequences a step"),
    **levers(),
}

_RESIDUAL: Mapping[str, Parameter] = {
    "features": Whole(default=256, meaning="inputs of the first layer"),
    "width": Whole(default=256, meaning="units of each layer"),
    "depth": Whole(default=16, meaning="layers with a decision, between the first and the last"),
    "classes": _CLASSES,
    "batch_size": Whole(default=64, meaning="rows a step"),
    **levers(),
}

FAMILIES: Mapping[str, Family] = {
    "linear": Family(
        summary="the tutorial: one linear layer, DataLoader with per-sample access, loss read every step",
        parameters={
            "features": Whole(default=1_000, meaning="inputs of the layer"),
            "classes": Whole(default=10, minimum=2, meaning="outputs of the layer"),
            "batch_size": Whole(default=32, meaning="rows a step"),
            **levers(rows=10_000, epochs=10, loader="dataloader", sync="every_step"),
        },
    ),
    "mlp": Family(
        summary="a multilayer perceptron with ReLU",
        parameters={
            "features": Whole(default=256, meaning="inputs of the first layer"),
            "width": Whole(default=256, meaning="units of each hidden layer"),
            "depth": Whole(default=2, meaning="hidden layers"),
            "classes": _CLASSES,
            "batch_size": Whole(default=64, meaning="rows a step"),
            **levers(),
        },
    ),
    "cnn": Family(
        summary="a convolutional network: three convolutions, batch norm, max pool",
        parameters={
            "channels": Whole(default=16, meaning="channels of the first convolution; then twice, four times"),
            "image": Whole(default=32, minimum=4, meaning="height and width of an image, which has three colours"),
            "classes": _CLASSES,
            "batch_size": Whole(default=32, meaning="images a step"),
            **levers(),
        },
    ),
    "transformer": Family(
        summary="a transformer encoder that classifies sequences of tokens; its attention is written out",
        parameters={
            "vocabulary": Whole(default=1_000, meaning="different tokens"),
            "width": Whole(default=128, meaning="numbers that stand for a token"),
            "layers": Whole(default=2, meaning="blocks of attention and feed-forward network"),
            "heads": Whole(default=4, meaning="parts of the width that attend for themselves"),
            "sequence": Whole(default=64, meaning="tokens of a sequence"),
            "classes": _CLASSES,
            "batch_size": Whole(default=16, meaning="sequences a step"),
            **levers(),
        },
        rules=(
            *RULES,
            Rule(
                parameter="heads",
                holds=lambda values: values["width"] % values["heads"] == 0,
                otherwise="{heads} heads cannot share a width of {width}; width is a multiple of heads",
            ),
        ),
    ),
    "lstm_loop": Family(
        summary="a recurrent network with its cell in a Python loop",
        parameters=_LSTM,
        twin="lstm_fused",
        twin_words="the loop",
    ),
    "lstm_fused": Family(summary="the same by torch's own layer: equal arithmetic, few operators", parameters=_LSTM),
    "branching": Family(
        summary="a data-dependent `if` in every layer, decided on the host",
        parameters=_RESIDUAL,
        twin="straight",
        twin_words="the branches",
    ),
    "straight": Family(summary="the same layers without an `if`: nothing to decide", parameters=_RESIDUAL),
    "embedding": Family(
        summary="bags of embedded words: memory traffic, hardly any arithmetic",
        parameters={
            "vocabulary": Whole(default=10_000, meaning="rows of the table"),
            "width": Whole(default=64, meaning="numbers a row"),
            "bag": Whole(default=32, meaning="words that are averaged"),
            "classes": _CLASSES,
            "batch_size": Whole(default=128, meaning="bags a step"),
            **levers(),
        },
    ),
    "gemm": Family(
        summary="a product of two matrices, nothing trained: does moving it to the device pay?",
        parameters={
            "size": Whole(default=512, meaning="m, n and k where they are not given"),
            "m": Whole(like="size", meaning="rows of the first matrix and of the product"),
            "n": Whole(like="size", meaning="columns of the second matrix and of the product"),
            "k": Whole(like="size", meaning="columns of the first matrix, rows of the second"),
            "iterations": Whole(default=1, meaning="products of the same matrices a step"),
            "transfer": Choice(
                meaning="copies: once a step, around all its products, or always, around each product",
                values=("once", "always"),
                default="once",
                accelerator_only=True,
            ),
            "dtype": DTYPE,
        },
        rules=(),
    ),
}

#: Every parameter that a row can have, by name.
KNOWN: Mapping[str, Parameter] = {
    name: parameter for family in FAMILIES.values() for name, parameter in {**family.parameters, **SCALARS}.items()
}
