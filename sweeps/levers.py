"""The levers: what every training that ships can be asked beside its sizes, and what moves a crossover without them.

How batches are made and moved, whether the host waits, in which type is computed, who updates the weights. They are
parameters like others: fixed or axes, and columns of a row by their own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeps.parameter import Choice, Flag, Number, Parameter, Rule, Value, Whole

SCALARS: Mapping[str, Parameter] = {
    **{
        name: Number(meaning="of the optimizer, as torch.optim documents it", not_below_zero=name != "beta2_decay")
        for name in (
            *("weight_decay", "momentum", "dampening", "eps", "rho", "alpha", "lambd", "t0", "lr_decay"),
            *("initial_accumulator_value", "momentum_decay", "beta2_decay", "d"),
        )
    },
    **{
        name: Flag(meaning="of the optimizer, as torch.optim documents it")
        for name in (*("nesterov", "maximize", "foreach", "fused", "amsgrad", "centered", "decoupled_weight_decay"),)
    },
}
_COMMON = ("weight_decay", "foreach", "maximize")
_ADAM = (*_COMMON, "eps", "amsgrad", "fused")

#: Optimizers of torch.optim, each with its arguments that are one number, one truth value. Not here: LBFGS, which
#: trains several times a step; SparseAdam, which needs sparse gradients; Muon, which takes matrices only. Nor the
#: arguments `capturable`, which follows from the target's mode, and `differentiable`, which fails on any training here.
OPTIMIZERS: Mapping[str, tuple[str, ...]] = {
    "ASGD": (*_COMMON, "lambd", "alpha", "t0"),
    "Adadelta": (*_COMMON, "rho", "eps"),
    "Adafactor": (*_COMMON, "beta2_decay", "d"),
    "Adagrad": (*_COMMON, "lr_decay", "initial_accumulator_value", "eps", "fused"),
    "Adam": (*_ADAM, "decoupled_weight_decay"),
    "AdamW": _ADAM,
    "Adamax": (*_COMMON, "eps"),
    "NAdam": (*_COMMON, "eps", "momentum_decay", "decoupled_weight_decay"),
    "RAdam": (*_COMMON, "eps", "decoupled_weight_decay"),
    "RMSprop": (*_COMMON, "alpha", "eps", "momentum", "centered"),
    "Rprop": ("foreach", "maximize"),
    "SGD": (*_COMMON, "momentum", "dampening", "nesterov", "fused"),
}

DTYPE = Choice(
    meaning="of the model and of data that are no whole numbers",
    values=("float32", "float64", "bfloat16"),
    default="float32",
)


def levers(*, rows: int = 0, epochs: int = 0, loader: str = "slice", sync: str = "end") -> dict[str, Parameter]:
    """Return the levers of a family, with the defaults in which families differ."""
    return {
        "rows": Whole(meaning="rows of the data set; 0 is 8 batches of them", minimum=0, default=rows),
        "epochs": Whole(meaning="epochs of a whole training, timed apart; 0 leaves it out", minimum=0, default=epochs),
        "loader": Choice(
            meaning=(
                "how a batch is made: dataloader reads row by row and collates, gather takes shuffled rows at once, "
                "slice takes the next rows as they lie, resident has all batches ready on the device"
            ),
            values=("dataloader", "gather", "slice", "resident"),
            default=loader,
        ),
        "loader_workers": Whole(
            meaning="processes of the DataLoader; 0 loads in the training's own",
            minimum=0,
            default=0,
            only_with=("loader", "dataloader"),
        ),
        "transfer": Choice(
            meaning=(
                "how data reach the device: pageable copies each batch, pinned does so from page-locked memory "
                "without waiting, overlapped does that for the next batch while the present one trains, resident has "
                "the data there beforehand"
            ),
            values=("pageable", "pinned", "overlapped", "resident"),
            default="pageable",
            accelerator_only=True,
        ),
        "sync": Choice(
            meaning="whether the training reads its loss, and so waits for the device, or never does",
            values=("every_step", "end"),
            default=sync,
        ),
        "sync_every": Whole(
            meaning="read the loss in each so-manyth step", default=1, only_with=("sync", "every_step")
        ),
        "dtype": DTYPE,
        "optimizer": Choice(meaning="a class of torch.optim", values=tuple(OPTIMIZERS), default="SGD"),
        "lr": Number(meaning="learning rate", above_zero=True, default=0.01),
        "clip_norm": Number(meaning="largest norm of all gradients together; none clips nothing", above_zero=True),
    }


#: What levers have to be to each other and to the batch size.
RULES = (
    Rule(
        parameter="batch_size",
        holds=lambda values: not values["rows"] or values["batch_size"] <= values["rows"],
        otherwise="{batch_size} is more than the {rows} rows of the data set; at most rows",
    ),
    Rule(
        parameter="transfer",
        holds=lambda values: values["loader"] != "resident" or values["transfer"] == "resident",
        otherwise="{transfer} cannot be with loader: resident, which has nothing to copy; leave transfer out",
    ),
    Rule(
        parameter="transfer",
        holds=lambda values: values["loader"] != "dataloader" or values["transfer"] != "resident",
        otherwise="{transfer} cannot be with loader: dataloader, which makes batches on the host; loader: gather can",
    ),
    Rule(
        parameter="fused",
        holds=lambda values: not (values.get("fused") and values.get("foreach")),
        otherwise="an optimizer is either fused or foreach, not both",
    ),
    Rule(
        parameter="nesterov",
        holds=lambda values: (
            not values.get("nesterov") or (values.get("momentum", 0) > 0 and not values.get("dampening"))
        ),
        otherwise="nesterov needs a momentum above 0, and no dampening",
    ),
)


def optimizer_arguments(optimizer: object) -> dict[str, Parameter]:
    """Return what an optimizer can be given beside its learning rate; nothing for one that is not known."""
    return {name: SCALARS[name] for name in OPTIMIZERS.get(str(optimizer), ())}


def split(
    parameters: Mapping[str, Value | None],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Divide the parameters of a training into its own sizes, the levers, and the arguments of its optimizer."""
    names = levers()
    arguments = optimizer_arguments(parameters["optimizer"])
    sizes = {name: value for name, value in parameters.items() if name not in names and name not in arguments}
    return (
        sizes,
        {name: parameters[name] for name in names},
        {name: value for name, value in parameters.items() if name in arguments},
    )
