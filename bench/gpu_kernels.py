"""Compile the kernel of `forest` for GPUs that this machine does not have, and print what it needs of each.

    pip install torch==2.11.0 numpy           # the build for CUDA, in an environment of its own; no GPU, no driver
    PYTHONPATH=. python bench/gpu_kernels.py --markdown bench/results/gpu_kernels.md

Inductor writes the kernel for tensors that exist in name only, on a device that a few functions of torch are made to
report. Triton then compiles it to machine code for that device. Nothing runs, so nothing here is a time on a GPU.
"""

# ruff: noqa: ISC004, SLF001  torch has no public way to compile for a device that is not there
from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}

import torch
import torch._dynamo.device_interface
import torch._inductor.async_compile
import torch._inductor.compile_fx
import torch._inductor.fx_passes.joint_graph
import torch._inductor.fx_passes.post_grad
import torch._inductor.kernel.flex
import torch._inductor.runtime.hints
import torch._inductor.runtime.triton_heuristics
import triton
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from refladder.engine.block_sparse import _BLOCK, ROW_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence

# Compute capability: an example, and KiB of shared memory that one block of threads may take (CUDA programming guide).
DEVICES = {80: ("A100", 163), 89: ("L4, RTX 4090", 99), 90: ("H100", 227)}
HALF, SINGLE = "half", "float32"
# Name, query heads, key heads, head width, precision, window, cap of scores, sinks.
SHAPES = (
    ("self-check", 4, 2, 16, SINGLE, True, None, False),
    ("Qwen2.5 0.5B", 14, 2, 64, HALF, False, None, False),
    ("gpt-oss", 64, 8, 64, HALF, True, None, True),
    ("Phi-3 mini", 32, 32, 96, HALF, True, None, False),
    ("Qwen2.5 3B", 16, 2, 128, HALF, False, None, False),
    ("Llama 3 8B", 32, 8, 128, HALF, False, None, False),
    ("Gemma 2 2B", 8, 4, 256, HALF, True, 50.0, False),
    ("Gemma 4, full attention", 8, 1, 512, HALF, False, None, False),
    ("Qwen2.5 0.5B", 14, 2, 64, SINGLE, False, None, False),
    ("Llama 3 8B", 32, 8, 128, SINGLE, False, None, False),
)
# The first kernel suits one length, the second all others, and rows of one block have one more.
LENGTHS = (1024, 2048, 3072, 384, ROW_TOKENS, _BLOCK, 640)


def pretend(capability: int) -> None:
    """Let torch and Triton report a device of this compute capability, and leave out what would touch a driver."""
    properties = types.SimpleNamespace(
        multi_processor_count=132,
        major=capability // 10,
        minor=capability % 10,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        warp_size=32,
        total_memory=2**36,
        name="pretended",
        shared_memory_per_block_optin=DEVICES[capability][1] * 1024,
        L2_cache_size=2**25,
        gcnArchName="",
    )
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": divmod(capability, 10),
        "get_device_properties": properties,
        "_lazy_init": None,
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": None,
        "current_stream": types.SimpleNamespace(cuda_stream=0),
    }
    torch._inductor.runtime.hints.DeviceProperties.create.cache_clear()
    interface = torch._dynamo.device_interface.CudaInterface
    for place, more in (
        (torch.cuda, {}),
        (torch.cuda.random, {}),
        (
            interface,
            {
                "get_compute_capability": capability,
                "is_triton_capable": True,
                "raise_if_triton_unavailable": None,
                "is_bf16_supported": True,
            },
        ),
        (interface.Worker, {}),
        (torch._C, {"_cuda_getCurrentRawStream": 0, "_cuda_getDevice": 0}),
        (torch.accelerator, {"current_device_index": 0, "is_available": False}),
    ):
        for name, answer in {**answers, **more}.items():
            if hasattr(place, name) or name in more:
                function = _answering(answer)
                setattr(place, name, staticmethod(function) if inspect.isclass(place) else function)
    interface.device = torch.cuda.device = torch.cuda._DeviceGuard = contextlib.nullcontext
    driver = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", capability, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda _device: 0,
    )
    triton.runtime.driver.set_active(driver)
    torch._subclasses.fake_tensor.init_gpu_context = _answering(None)
    torch._inductor.config.pattern_matcher = False
    for passes in ("joint_graph", "post_grad"):
        getattr(torch._inductor.fx_passes, passes).lazy_init = _answering(None)
    _copy_nothing()


@functools.cache
def _copy_nothing() -> None:
    """Let torch's stand-in for the kernel give strides only: its copy of a tensor without values needs a driver."""
    module = sys.modules["torch._higher_order_ops.flex_attention"]
    source = inspect.getsource(module._permute_strides)
    source = source.replace("new_out.copy_(out)", "pass").replace(
        "out.new_empty(out.shape).as_strided", "out.as_strided"
    )
    exec(source, module.__dict__)  # noqa: S102  torch's own function


def _answering(value: Any) -> Any:
    return lambda *_given, **_named: value


def sources(shape: Sequence[Any], lengths: Sequence[int]) -> list[list[str]]:
    """Return the sources that inductor writes for rows of some lengths, one after another, in one process."""
    _, heads, key_heads, width, precision, window, cap, sinks = shape
    dtype = torch.bfloat16 if precision == HALF else torch.float32
    written: list[str] = []

    def kept(_self: Any, _name: str, source: str, **_named: Any) -> Any:
        written.append(source)
        return types.SimpleNamespace(run=_answering(None))

    torch._inductor.async_compile.AsyncCompile.triton = kept
    torch._dynamo.reset()
    kernel = torch.compile(flex_attention, fullgraph=True)
    arguments = {"scale": width**-0.5, "enable_gqa": True}
    if cap is not None:
        arguments["score_mod"] = lambda score, *_place: cap * torch.tanh(score / cap)
    if sinks:
        arguments["return_aux"] = AuxRequest(lse=True)
    found = []
    settings = torch._dynamo.config.patch(recompile_limit=256, specialize_float=True)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.inference_mode(), settings:
        for length in lengths:
            written.clear()
            query, key, value = (
                torch.empty(1, length, each, width, device="cuda", dtype=dtype).transpose(1, 2)
                for each in (heads, key_heads, key_heads)
            )
            # The call itself fails, after the compilation: there is no device.
            with contextlib.suppress(RuntimeError):
                kernel(query, key, value, block_mask=mask(length, window=window), **arguments)
            found.append(list(written))
    return found


def mask(length: int, *, window: bool) -> BlockMask:
    """Return a mask of the form that `blocks_of` makes, without values."""
    ends, positions, hidden = (
        torch.empty(ROW_TOKENS, dtype=torch.int32, device="cuda") for _ in range(3)
    )

    def visible(_row: Any, _head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (query < ends[key])

    def near(_row: Any, _head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (query < ends[key]) & (positions[key] > hidden[query])

    blocks = length // _BLOCK
    listed = [
        torch.empty(1, 1, *size, dtype=torch.int32, device="cuda")
        for _ in range(2)
        for size in ((blocks,), (blocks, blocks))
    ]
    return BlockMask.from_kv_blocks(
        *listed, BLOCK_SIZE=_BLOCK, mask_mod=near if window else visible, compute_q_blocks=False
    )


def needs(source: str, capability: int, stages: int | None = None) -> tuple[int, int, int]:
    """Compile a kernel: bytes of shared memory of a block, and registers and bytes of spilled ones of a thread.

    `stages`: of the pipeline of loads, in place of those that inductor chose.
    """
    kept: dict[str, Any] = {}

    def template(num_stages: int, num_warps: int, triton_meta: Any, **_named: Any) -> Any:
        kept.update(stages=num_stages, warps=num_warps, meta=triton_meta)
        return lambda function: kept.setdefault("function", function)

    torch._inductor.runtime.triton_heuristics.template = template
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(source, "utf-8")
        spec: Any = importlib.util.spec_from_file_location("kernel", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        meta = kept["meta"]
        compiled = triton.compile(
            ASTSource(kept["function"], meta["signature"], meta["constants"], meta["configs"][0]),
            target=GPUTarget("cuda", capability, 32),
            options={"num_warps": kept["warps"], "num_stages": stages or kept["stages"]},
        )
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(compiled.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        shown = subprocess.run(
            [tool, "-res-usage", binary], check=True, capture_output=True, text=True
        ).stdout
    registers, stack = map(int, re.search(r"REG:(\d+) STACK:(\d+)", shown).groups())
    return compiled.metadata.shared, registers, stack


def main() -> None:
    """Compile each shape for each device, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    parser.add_argument("--devices", default="80,89,90", help="compute capabilities, with commas")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines = [
        "# The kernel of `forest`, compiled without a GPU",
        "",
        f"`python bench/gpu_kernels.py`, torch {torch.__version__}, Triton {triton.__version__}. Nothing was run. In bold: more "
        "shared memory than the device has. This torch then gives up the kernel, and the run gives way to `masked`; a "
        "newer one (2.13) first tries it with loads in one stage. Half precision is bfloat16. Spilled: bytes of a thread "
        "that do not fit in registers.",
        "",
        "| device | shape | heads | head width | precision | kernels for rows of "
        f"{', '.join(f'{length:,}' for length in LENGTHS)} tokens | KiB shared (limit) | registers | bytes spilled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for capability in map(int, arguments.devices.split(",")):
        pretend(capability)
        example, limit = DEVICES[capability]
        for shape in SHAPES:
            name, heads, key_heads, width, precision, *_ = shape
            written = sources(shape, LENGTHS)
            # The kernel of all other lengths.
            shared, registers, stack = needs(written[1][0], capability)
            memory = f"{shared / 1024:.0f} ({limit})"
            if shared > limit * 1024:
                least = needs(written[1][0], capability, stages=1)[0]
                memory = f"**{memory}**, {least / 1024:.0f} in one stage"
            cells = [
                f"{capability / 10:.1f} ({example})",
                name,
                f"{heads}, {key_heads}",
                str(width),
                precision,
                ", ".join(str(min(1, len(each))) for each in written),
                memory,
                str(registers),
                f"{stack:,}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if arguments.markdown is not None:
        arguments.markdown.write_text("\n".join([*lines, ""]), "utf-8")


if __name__ == "__main__":
    main()
