"""The tests that names have beside their samples, or in place of them: Modules, optimizers, data, files."""

from __future__ import annotations

_MODULE = "tests/oracle/test_nn.py::test_structure"
_STATE = "tests/oracle/test_module_api.py::test_names_and_state"
_ANSWERS = "tests/oracle/test_passing_names.py::test_answers"
_OPTIMIZER = "tests/oracle/test_optim.py::test_optimizer"
_SCHEDULER = "tests/oracle/test_optim.py::test_scheduler"
_USE = "tests/oracle/test_autograd.py::test_use"
_INITIAL = "tests/oracle/test_nn_utils.py::test_initial_values"
_DTYPES = "tests/oracle/test_tensor.py::test_dtype_facts"
_NAMES = "tests/oracle/test_names.py::test_use"
_PERMUTED = "tests/test_data_sets.py::test_random_samplers_are_permutations"
_SETS = "tests/test_data_sets.py::test_datasets_and_samplers"

NAMED: dict[str, str] = {
    **{f"torch.{n}": _DTYPES for n in "float32 float16 bfloat16 float64 int64 int32".split()},
    **{f"torch.{n}": _ANSWERS for n in "FloatTensor LongTensor Size manual_seed autograd.Variable".split()},
    **{f"torch.accelerator.{n}": _ANSWERS for n in "current_accelerator is_available device_count".split()},
    **{f"torch.backends.cudnn.{n}": _ANSWERS for n in ("benchmark", "deterministic")},
    **{f"torch.optim.{n}": _OPTIMIZER for n in "Adam SGD AdamW Adadelta RMSprop".split()},
    **{f"torch.nn.init.{n}_": _INITIAL for n in "orthogonal trunc_normal kaiming_normal xavier_normal".split()},
    **{f"torch.nn.init.{n}_": _NAMES for n in "zeros ones constant normal uniform kaiming_uniform".split()},
    "torch.nn.init.xavier_uniform_": _NAMES,
    "torch.uint8": _NAMES,
    "torch.finfo": _NAMES,
    **{f"Module.{n}": _MODULE for n in "parameters named_parameters modules named_modules".split()},
    **{f"Module.{n}": _MODULE for n in "named_children register_buffer".split()},
    **{f"Module.{n}": "tests/oracle/test_nn.py::test_training_flag_and_apply" for n in "train eval apply".split()},
    **{f"Module.{n}": _NAMES for n in "children add_module register_parameter".split()},
    "Module.get_submodule": _STATE,
    "Module.state_dict": "tests/oracle/test_nn.py::test_state_dict_round_trip",
    "Module|Optimizer.state_dict": "tests/test_serialization.py::test_training_goes_on_in_the_other_library",
    "Module|Optimizer.load_state_dict": "tests/test_serialization.py::test_training_goes_on_in_the_other_library",
    "Module.zero_grad": _NAMES,
    "Module.register_forward_hook": "tests/oracle/test_nn.py::test_hooks",
    "Module.to": "tests/oracle/test_nn.py::test_conversion_keeps_parameters",
    "Module|Function.apply": _NAMES,
    "Optimizer/Scheduler.step": _OPTIMIZER,
    "Optimizer/Scheduler.zero_grad": _OPTIMIZER,
    "Tensor.backward": _USE,
    "Tensor.grad": _USE,
    "torch.Generator": "tests/oracle/test_passing_names.py::test_random_state",
    "torch.Tensor": _NAMES,
    "torch.__version__": "tests/standin/test_coverage.py::test_versions_compare_as_torchs_do",
    "torch.accelerator.set_device_index": _ANSWERS,
    "torch.amp.autocast": "tests/oracle/test_autocast.py::test_dtypes",
    "torch.autograd.Function": _NAMES,
    "torch.autograd.grad": _USE,
    "torch.autograd.profiler.profile": "tests/oracle/test_passing_names.py::test_profiler",
    "torch.compile": "tests/jit/test_callables.py::test_compile_is_jit_under_pytorchs_name",
    "torch.distributions.Categorical": "tests/oracle/test_distributions.py::test_values_and_gradients",
    "torch.from_numpy": "tests/oracle/test_interchange.py::test_arrays_share_memory_both_ways",
    "torch.fx.symbolic_trace": "tests/oracle/test_fx.py::test_code_and_results",
    "torch.fx.proxy.GraphAppendingTracer": _NAMES,
    "torch.fx.Proxy": _NAMES,
    "torch.fx.Node": _NAMES,
    **{f"torch.fx.{n}": "tests/oracle/test_fx.py::test_a_graph_by_hand" for n in "GraphModule Graph Tracer".split()},
    "torch.inference_mode": _USE,
    "torch.load": "tests/test_serialization.py::test_tensors",
    "torch.multiprocessing.spawn": "tests/oracle/test_passing_names.py::test_processes",
    "torch.nn.init.calculate_gain": _INITIAL,
    "torch.nn.utils.clip_grad_norm_": "tests/oracle/test_optim.py::test_clipping",
    "torch.no_grad": _USE,
    "torch.optim.Optimizer": "tests/oracle/test_optim.py::test_a_user_defined_optimizer",
    "torch.optim.lr_scheduler.LambdaLR": _SCHEDULER,
    "torch.optim.lr_scheduler.ReduceLROnPlateau": "tests/oracle/test_optim.py::test_plateau",
    "torch.optim.lr_scheduler.StepLR": _SCHEDULER,
    "torch.save": "tests/test_serialization.py::test_tensors",
    "torch.serialization.safe_globals": "tests/test_serialization.py::test_classes_that_a_program_allows",
    "torch.set_grad_enabled": _USE,
    "torch.testing.assert_allclose": "tests/oracle/test_testing.py::test_assert_close_says_what_differs",
    "torch.utils._pytree.tree_map": "tests/test_data_sets.py::test_pytrees",
    "torch.utils.data.DataLoader": "tests/test_data_loader.py::test_batches_come_in_order",
    "torch.utils.data.Dataset": _SETS,
    "torch.utils.data.RandomSampler": f"{_PERMUTED}_that_a_seed_repeats",
    "torch.utils.data.TensorDataset": _SETS,
}  # fmt: skip
"""By name the test that compares it with PyTorch, or says what it does."""

NO_SAMPLES = {"torch.multiprocessing.spawn": "no work: it starts processes"}
"""Names with no samples beside such a test, and what a GPU has to do with them."""
