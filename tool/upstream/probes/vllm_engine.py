# SPDX-License-Identifier: Apache-2.0
"""Probe of a whole vLLM engine on CPU: it serves requests for real, and writes down what its NIXL connector does.

Engine core and worker run in this process. Nothing is replaced but NIXL's agent, by itself with a notebook, and only if
asked for, the page sizes that the attention backend offers. `kvproof.upstream.live.engine` describes the messages.
"""

from __future__ import annotations

import importlib
import os
import traceback
from pathlib import Path
from typing import Any

import nixl_agents
import seat
from nixl_agents import Posted, Prepared, real_agent

NIXL = "vllm.distributed.kv_transfer.kv_connector.v1.nixl"
ADDRESS = "127.0.0.1"
LEASE_SECONDS = 600
"""How long a producer keeps blocks for its consumer. Upstream's half minute is short on a busy machine."""

MODEL_TOKENS = 400
"""Longest prompt and answer together."""
PRODUCER, CONSUMER = "P0", "D0"

Record = dict[str, Any]


class Probe:
    """One engine, started once."""

    stage = "start"
    tree: Path | None = None
    reached: Record | None = None
    library = (str(nixl_agents.__file__),)

    def __init__(self) -> None:
        self.notes = Notes()
        self.llm: Any = None

    def hello(self) -> Record:
        return {"answer": "probe-failed", "error": "ProbeError", "message": "this probe drives no cases"}

    def run(self, ask: Record) -> Record:
        """Do what is asked."""
        self.stage = ask["do"]
        return {"model": make_model, "start": self.start, "generate": self.generate, "forget": self.forget}[self.stage](
            ask
        )

    def start(self, ask: Record) -> Record:
        """Start the engine."""
        os.environ |= {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_HOST_IP": ADDRESS,
            "VLLM_CACHE_ROOT": ask["cache"],
            "VLLM_NIXL_SIDE_CHANNEL_HOST": ADDRESS,
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(ask["port"]),
        }
        vllm = importlib.import_module("vllm")
        self.tree = Path(str(vllm.__file__)).parent.parent
        self.notes.install()
        if ask.get("page_tokens") is not None:
            offer_only(ask["page_tokens"])
        self.llm = vllm.LLM(
            model=ask["model"],
            enforce_eager=True,
            skip_tokenizer_init=True,
            dtype="float32",
            seed=0,
            block_size=ask["block_tokens"],
            num_gpu_blocks_override=ask["blocks"],
            max_model_len=MODEL_TOKENS,
            max_num_batched_tokens=MODEL_TOKENS,
            max_num_seqs=4,
            disable_log_stats=True,
            kv_transfer_config={
                "kv_connector": "NixlConnector",
                "kv_role": "kv_both",
                "kv_buffer_device": "cpu",
                "kv_connector_extra_config": {"num_threads": 1, "kv_lease_duration": LEASE_SECONDS},
            },
        )
        return {"answer": "started", "version": vllm.__version__, **seen_engine(self.notes.worker)}

    def generate(self, ask: Record) -> Record:
        """Let the engine answer a prompt, greedily."""
        params = importlib.import_module("vllm").SamplingParams
        self.notes.turn()
        options = {"extra_args": {"kv_transfer_params": ask["transfer"]}} if ask.get("transfer") else {}
        sampling = params(temperature=0.0, max_tokens=ask["tokens"], ignore_eos=True, detokenize=False, **options)
        (output,) = self.llm.generate([{"prompt_token_ids": ask["prompt"]}], sampling, use_tqdm=False)
        (answer,) = output.outputs
        return {
            "answer": "generated",
            "tokens": list(answer.token_ids),
            "finish": str(answer.finish_reason),
            "transfer": output.kv_transfer_params,
            **self.notes.page(),
        }

    def forget(self, ask: Record) -> Record:
        """Empty the prefix cache, so that nothing that was computed before is used again."""
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("the engine would not empty its prefix cache")
        return {"answer": "forgotten"}


class Notes:
    """What the connector of this engine was seen doing: its worker, and of the latest request tables and transfers."""

    def __init__(self) -> None:
        self.worker: Any = None
        self.cached: int | None = None
        self.tables: list[list[int]] | None = None
        self.computed: int | None = None
        self.failure: Record | None = None
        self.peer: Record | None = None
        self._posted = 0

    def install(self) -> None:
        """Look over the connector's shoulder, before an engine builds it."""
        base = importlib.import_module(f"{NIXL}.base_worker")
        scheduler = importlib.import_module(f"{NIXL}.pull_scheduler").NixlPullConnectorScheduler
        base.NixlWrapper = real_agent()
        worker = base.NixlBaseConnectorWorker
        after(worker, "register_kv_caches", self._registered)
        after(scheduler, "get_num_new_matched_tokens", self._matched)
        after(scheduler, "update_state_after_alloc", self._allocated)
        after(scheduler, "request_finished", self._finished)
        self._watch_handshakes(worker)

    def turn(self) -> None:
        """Begin a page for a new request."""
        self.cached = self.tables = self.computed = self.failure = None
        self._posted = len(self.worker.nixl_wrapper.posted)

    def page(self) -> Record:
        """What there is on the page."""
        posted = self.worker.nixl_wrapper.posted[self._posted :]
        return {
            "tables": self.tables,
            "cached_tokens": self.cached,
            "computed_tokens": self.computed,
            "transfers": [transfer_of(post) for post in posted],
            "failure": self.failure,
            "peer": self.peer,
        }

    def _registered(self, _result: Any, worker: Any, caches: Record) -> None:
        self.worker = worker
        self.worker.kvproof_views = caches

    def _matched(self, _result: Any, _scheduler: Any, _request: Any, computed: int) -> None:
        self.cached = int(computed)

    def _allocated(self, _result: Any, _scheduler: Any, _request: Any, blocks: Any, _external: int) -> None:
        if self.tables is None:  # once more when the blocks have come; nothing new by then
            self.tables = plain(blocks.get_block_ids())

    def _finished(self, _result: Any, _scheduler: Any, request: Any, blocks: Any) -> None:
        if (request.kv_transfer_params or {}).get("do_remote_decode"):  # what it offers is what it holds in the end
            self.tables, self.computed = plain(blocks), int(request.num_computed_tokens)

    def _watch_handshakes(self, worker: Any) -> None:
        """A handshake fails in a thread of its own, and leaves nothing behind but a request without an answer."""
        inner = worker.add_remote_agent

        def add_remote_agent(own: Any, metadata: Any, *args: Any, **options: Any) -> Any:
            self.peer = seen_peer(metadata)
            try:
                return inner(own, metadata, *args, **options)
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = [frame.filename.rpartition("site-packages/")[2], frame.lineno or 0]
                self.failure = {"error": type(error).__name__, "message": seat.clip(str(error)), "place": place}
                raise

        worker.add_remote_agent = add_remote_agent


def after(owner: Any, name: str, note: Any) -> None:
    """Call ``note`` with the result and the arguments after each call of a method."""
    inner = getattr(owner, name)

    def noted(*args: Any, **options: Any) -> Any:
        result = inner(*args, **options)
        note(result, *args, **options)
        return result

    setattr(owner, name, noted)


def offer_only(page_tokens: int) -> None:
    """Make the CPU's attention, which takes any multiple of 32 tokens, as choosy as those on GPUs are."""
    backend = importlib.import_module("vllm.v1.attention.backends.cpu_attn").CPUAttentionBackend
    backend.get_supported_kernel_block_sizes = staticmethod(lambda *args, **options: [page_tokens])


def make_model(ask: Record) -> Record:
    """Random weights for a llama of this config. Attention is peaked enough for every earlier token to matter."""
    torch = importlib.import_module("torch")
    config, random = ask["config"], torch.Generator().manual_seed(ask["seed"])
    hidden, heads, held = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    size, inner, vocabulary = config["head_dim"], config["intermediate_size"], config["vocab_size"]

    def matrix(rows: int, columns: int, gain: float = 1.0) -> Any:
        return torch.randn(rows, columns, generator=random) * gain / columns**0.5

    weights = {
        "model.embed_tokens.weight": matrix(vocabulary, hidden, hidden**0.5),
        "model.norm.weight": torch.ones(hidden),
        "lm_head.weight": matrix(vocabulary, hidden),
    }
    for number in range(config["num_hidden_layers"]):
        weights |= {
            f"model.layers.{number}.{name}.weight": weight
            for name, weight in {
                "self_attn.q_proj": matrix(heads * size, hidden, 2.0),
                "self_attn.k_proj": matrix(held * size, hidden, 2.0),
                "self_attn.v_proj": matrix(held * size, hidden),
                "self_attn.o_proj": matrix(hidden, heads * size, 2.0),
                "mlp.gate_proj": matrix(inner, hidden),
                "mlp.up_proj": matrix(inner, hidden),
                "mlp.down_proj": matrix(hidden, inner),
                "input_layernorm": torch.ones(hidden),
                "post_attention_layernorm": torch.ones(hidden),
            }.items()
        }
    save = importlib.import_module("safetensors.torch").save_file
    save(weights, str(Path(ask["folder"]) / "model.safetensors"), metadata={"format": "pt"})
    return {"answer": "forgotten"}


def seen_engine(worker: Any) -> Record:
    """What the worker was given and what it registered."""
    config = worker.kv_cache_config
    groups = [seen_group(group.kv_cache_spec) for group in config.kv_cache_groups]
    numbers = {name: index for index, group in enumerate(config.kv_cache_groups) for name in group.layer_names}
    return {
        "backend": str(worker.backend_name),
        "page_tokens": int(worker.block_size),
        "blocks": int(config.num_blocks),
        "pages_per_block": int(worker._physical_blocks_per_logical_kv_block),
        "groups": groups,
        "layers": [seen_layer(name, numbers[name], view) for name, view in worker.kvproof_views.items()],
        "regions": seen_regions(worker, len(groups)),
        "registered": worker.nixl_wrapper.registered,
    }


def seen_group(spec: Any) -> Record:
    """How a group's cache is made, in the target's own terms."""
    window = getattr(spec, "sliding_window", None)
    return {"spec": type(spec).__name__, "block_tokens": int(spec.block_size), "window_tokens": window}


def seen_layer(name: str, group: int, view: Any) -> Record:
    """A layer's memory: its pages lie along the first axis."""
    storage = view.untyped_storage()
    return {
        "name": name,
        "group": group,
        "address": view.data_ptr(),
        "storage": storage.data_ptr(),
        "storage_bytes": storage.nbytes(),
        "page_bytes": view[0].nbytes,
        "stride": view.stride(0) * view.element_size(),
        "pages": view.shape[0],
    }


def seen_peer(metadata: Any) -> Record:
    """What the other engine says of itself in the handshake."""
    rows = zip(
        metadata.kv_caches_base_addr,
        metadata.block_lens,
        metadata.block_strides,
        metadata.region_num_blocks,
        metadata.region_names,
        strict=True,
    )
    return {
        "page_tokens": int(metadata.block_size),
        "pages_per_block": int(metadata.physical_blocks_per_logical_kv_block),
        "regions": [dict(zip(("address", "bytes", "stride", "pages", "name"), row, strict=True)) for row in rows],
    }


def seen_regions(worker: Any, groups: int) -> list[Record]:
    """The worker's table of regions. A region of several groups, or of all, has a negative group."""
    bases = worker.kv_caches_base_addr[worker.engine_id][0]
    rows = zip(
        bases,
        worker.block_len_per_layer,
        worker.block_stride_per_layer,
        worker.region_num_blocks,
        worker.region_names,
        worker.region_group_ids,
        strict=True,
    )
    mapped = len(set(worker.region_group_ids)) > 1
    return [
        {
            "address": address,
            "bytes": size,
            "stride": stride,
            "pages": pages,
            "name": name,
            "groups": [f"g{group}"] if mapped and group >= 0 else [f"g{index}" for index in range(groups)],
        }
        for address, size, stride, pages, name, group in rows
    ]


def transfer_of(post: Posted) -> Record:
    """A posted transfer: the consumer reads."""
    assert post.op == "READ", post.op
    return {
        "producer": PRODUCER,
        "consumer": CONSUMER,
        "source": prepared_list(post.remote),
        "target": prepared_list(post.local),
        "source_ids": post.remote_ids,
        "target_ids": post.local_ids,
    }


def prepared_list(prepared: Prepared) -> Record:
    """A prepared list; attention is all there is in it."""
    total = sum(row[4] for row in prepared.rows)
    return {"memory": prepared.memory, "rows": prepared.rows, "sections": {"attention": [0, total]}}


def plain(groups: Any) -> list[list[int]]:
    """Block ids as numbers."""
    return [[int(block) for block in group] for group in groups]


if __name__ == "__main__":
    seat.serve(Probe())
