"""Hyperparameters of a run, and the names of its results."""

from __future__ import annotations

from typing import Any

from google.protobuf.struct_pb2 import ListValue, Value
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

from eagerjit.tensors.tensor import Tensor
from eagerjit.utils.tensorboard._convert_np import make_np


def _message(tag: str, **content: Any) -> Summary:
    data = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
    described = metadata.create_summary_metadata(data)
    return Summary(value=[Summary.Value(tag=tag, metadata=described)])


def _value(value: Any) -> tuple[int, Value]:
    """A hyperparameter's type and its value; bools are numbers, as PyTorch writes them."""
    if isinstance(value, str):
        return api_pb2.DATA_TYPE_STRING, Value(string_value=value)
    if isinstance(value, (int, float)):
        return api_pb2.DATA_TYPE_FLOAT64, Value(number_value=value)
    if isinstance(value, Tensor):
        return api_pb2.DATA_TYPE_FLOAT64, Value(number_value=float(make_np(value).reshape(-1)[0]))
    raise ValueError(f"a hyperparameter is an int, float, str, bool or tensor, and not {type(value)}")


def _check_domains(hparam_dict: dict[str, Any], domains: Any) -> None:
    if not isinstance(domains, dict):
        raise TypeError(f"hparam_domain_discrete is a dictionary of lists, and not {type(domains)}")
    for name, values in domains.items():
        kind = type(hparam_dict.get(name))
        if name not in hparam_dict or not isinstance(values, list) or any(type(value) is not kind for value in values):
            raise TypeError(f"hparam_domain_discrete[{name!r}] is a list of values like that of hparam_dict[{name!r}]")


def hparams(
    hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: Any = None
) -> tuple[Summary, Summary, Summary]:
    """Three messages: which hyperparameters and results there are, their values in this run, and that it succeeded.

    `hparam_domain_discrete` lists the values that a hyperparameter may have.
    """
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("hyperparameters and results are dictionaries")
    domains = hparam_domain_discrete or {}
    _check_domains(hparam_dict, domains)
    known = {name: _value(value) for name, value in hparam_dict.items() if value is not None}
    infos = [api_pb2.HParamInfo(name=name, type=kind) for name, (kind, _) in known.items()]
    for info in infos:
        if info.name in domains:
            info.domain_discrete.CopyFrom(ListValue(values=[_value(value)[1] for value in domains[info.name]]))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metric_dict]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    start = SessionStartInfo(hparams={name: value for name, (_, value) in known.items()})
    return (
        _message(metadata.EXPERIMENT_TAG, experiment=experiment),
        _message(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        _message(metadata.SESSION_END_INFO_TAG, session_end_info=SessionEndInfo(status=api_pb2.STATUS_SUCCESS)),
    )
