"""Files that hold a policy as a graph, for programs without RLStudio: each as bytes, and a way to run those bytes.

    onnx          policy.onnx   one file, opset 20, run by onnxruntime
    torch-export  policy.pt2    torch.export's own archive
    torchscript   policy.ts     traced; torch develops it no further, and reading one runs code: RLStudio never does

Exporters print deprecations and packages they would like to have: it is silenced, for none concerns the user.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from rlstudio.core.errors import Incompatible, UserError, message_of, suggest
from rlstudio.core.host.extras import Extra
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.planned import DeployedPlan
from rlstudio.delivery.ports import Port

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]

USUAL_FORMATS = ("bundle", "onnx", "torch-export")
OPSET = 20
EXAMPLE_ROWS = 3  # one row would be taken for a constant
BATCH = "batch"
_TYPES = {"float32": "tensor(float)", "uint8": "tensor(uint8)", "int64": "tensor(int64)"}

ONNX, ONNXSCRIPT, ONNXRUNTIME = (Extra("export", module) for module in ("onnx", "onnxscript", "onnxruntime"))


class Graph(NamedTuple):
    data: bytes  # the file
    run: Run  # inputs by name to outputs by name


def check_formats(formats: tuple[str, ...]) -> None:
    """Refuse what is unknown or not installed, before any work."""
    known = {"bundle", *FORMATS}
    for name in formats:
        if name not in known:
            raise UserError(
                f"--format: unknown {name!r}{suggest(name, known) or '; known: ' + ', '.join(sorted(known))}"
            )
    if "onnx" in formats:
        for extra in (ONNX, ONNXSCRIPT, ONNXRUNTIME):
            extra.load("--format", "onnx")


def default_formats() -> tuple[str, ...]:
    """What a bundle is written with unless something else is asked for: of the usual ones, those that are installed."""
    return tuple(name for name in USUAL_FORMATS if name != "onnx" or missing_extra() is None)


def missing_extra() -> Extra | None:
    """The first package that `policy.onnx` needs and that is not installed."""
    return next((extra for extra in (ONNX, ONNXSCRIPT, ONNXRUNTIME) if not extra.installed), None)


class Exporter:
    """One policy in as many formats as asked for; two of them begin with the same program."""

    def __init__(self, policy: Deployed | DeployedPlan) -> None:
        self.policy = policy

    def graph(self, name: str) -> Graph:
        _, make = FORMATS[name]
        try:
            with _quiet():
                return make(self)
        except Exception as error:  # each exporter has errors of its own
            if not isinstance(self.policy, DeployedPlan):
                raise
            reason = message_of(_first_cause(error))
            raise Incompatible(
                f"--format {name}: its exporter cannot follow this plan: {reason}; use --format torchscript or bundle"
            ) from error

    @cached_property
    def program(self) -> torch.export.ExportedProgram:
        example = self.example()
        if self.policy.rows is not None:
            return torch.export.export(self.policy, example)
        batch = torch.export.Dim(BATCH, min=1)
        return torch.export.export(self.policy, example, dynamic_shapes=(tuple({0: batch} for _ in example),))

    def example(self) -> tuple[torch.Tensor, ...]:
        ports, rows = self.policy.inputs, self.policy.rows or EXAMPLE_ROWS
        return tuple(torch.zeros(rows, *port.shape, dtype=getattr(torch, port.dtype)) for port in ports)


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def file_of(name: str) -> str:
    return FORMATS[name][0]


def onnx_run(data: bytes, inputs: Sequence[Port], outputs: Sequence[Port]) -> Run:
    """Runs an ONNX file with exactly these inputs and outputs; ValueError names what differs.

    It is given as bytes and may refer to nothing outside of them: tensors in other files would be read from anywhere.
    """
    onnx, onnxruntime = (extra.load("policy.onnx", "a graph") for extra in (ONNX, ONNXRUNTIME))
    _check_contained(onnx.load_from_string(data))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    for given, expected in ((session.get_inputs(), inputs), (session.get_outputs(), outputs)):
        described = [(node.name, node.type, tuple(node.shape[1:])) for node in given]
        if described != [(port.name, _TYPES[port.dtype], port.shape) for port in expected]:
            raise ValueError(f"it has {described}, not what the spec says")
    names = [port.name for port in outputs]
    return lambda arrays: dict(zip(names, session.run(names, arrays), strict=True))


def _check_contained(model: ModelProto) -> None:
    """No tensor of the model, also of graphs inside nodes, may lie in another file."""
    waiting: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        tensors = [*getattr(graph, "initializer", ())]
        tensors += [
            part for sparse in getattr(graph, "sparse_initializer", ()) for part in (sparse.values, sparse.indices)
        ]
        for node in graph.node:
            for attribute in node.attribute:
                waiting += [*attribute.graphs, attribute.g]
                sparse = [*attribute.sparse_tensors, attribute.sparse_tensor]
                tensors += [*attribute.tensors, attribute.t, *(part for s in sparse for part in (s.values, s.indices))]
        if any(tensor.data_location or tensor.external_data for tensor in tensors):
            raise ValueError("it refers to tensors in another file")


def _onnx(exporter: Exporter) -> Graph:
    policy = exporter.policy
    program = torch.onnx.export(
        exporter.program,
        dynamo=True,
        input_names=[port.name for port in policy.inputs],
        output_names=[port.name for port in policy.outputs],
        opset_version=OPSET,
        external_data=False,
        verbose=False,
    )
    assert program is not None
    proto = program.model_proto
    _plain(proto)
    data = proto.SerializeToString(deterministic=True)
    return Graph(data, onnx_run(data, policy.inputs, policy.outputs))


def _plain(proto: ModelProto) -> None:
    """Without the exporter's notes (paths and lines of our source), and with `batch` for the name it made up."""
    graph = proto.graph
    made_up = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.ClearField("metadata_props")
        for dim in value.type.tensor_type.shape.dim:
            if made_up and dim.dim_param == made_up:
                dim.dim_param = BATCH
    for noted in (proto, graph, *graph.node, *graph.initializer):
        noted.ClearField("metadata_props")
        noted.ClearField("doc_string")


def _torch_export(exporter: Exporter) -> Graph:
    file = io.BytesIO()
    torch.export.save(exporter.program, file)
    # Read back, so that the bytes are compared and not what they were made of. Only ever our own, from memory.
    program = torch.export.load(io.BytesIO(file.getvalue()))
    return Graph(file.getvalue(), module_run(program.module(), exporter.policy))


def _torchscript(exporter: Exporter) -> Graph:
    traced = torch.jit.trace(exporter.policy, exporter.example(), check_trace=False)  # type: ignore[no-untyped-call]
    file = io.BytesIO()
    torch.jit.save(traced, file)
    return Graph(file.getvalue(), module_run(traced, exporter.policy))


FORMATS: dict[str, tuple[str, Callable[[Exporter], Graph]]] = {
    "onnx": ("policy.onnx", _onnx),
    "torch-export": ("policy.pt2", _torch_export),
    "torchscript": ("policy.ts", _torchscript),
}


def module_run(module: Callable[..., tuple[torch.Tensor, ...]], policy: Deployed | DeployedPlan) -> Run:
    """Runs a torch module that takes and gives what the policy does."""
    inputs, outputs = ([port.name for port in ports] for ports in (policy.inputs, policy.outputs))

    @torch.inference_mode()
    def run(arrays: Arrays) -> Arrays:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = module(*(torch.tensor(arrays[name]) for name in inputs))
        return {name: result.numpy() for name, result in zip(outputs, results, strict=True)}

    return run


@contextmanager
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
