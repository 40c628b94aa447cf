# SPDX-License-Identifier: Apache-2.0
"""What people do to a model besides training it: evaluate, load, convert, freeze, clip, copy, mistake."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_experts import (
    SHAPE,
    SOLVERS,
    check_gradients,
    choices,
    close,
    expected_gradients,
    make,
    together,
)
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint
from trainer.model import ListedExperts, StackedExperts
from trainer.ranks import run_ranks

import fssdp
from fssdp.torch import ShardedExperts, shard_experts

both_kinds = pytest.mark.parametrize("stacked", [False, True])


class Dropping(nn.Module):
    """An expert with dropout, an activation of choice, and anything else."""

    def __init__(self, drop: float = 0.5, act: Callable[[Tensor], Tensor] = F.silu) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 6)
        self.drop, self.act = nn.Dropout(drop), act

    def forward(self, rows: Tensor) -> Tensor:
        return self.down(self.drop(self.act(self.up(rows))))


class Listed(ListedExperts):
    """A layer of given experts."""

    def __init__(self, experts: Sequence[nn.Module]) -> None:
        nn.ModuleList.__init__(self, experts)


def dropping(layers: int = 2, experts: int = 6) -> nn.ModuleList:
    torch.manual_seed(3)
    return nn.ModuleList(Listed([Dropping() for _ in range(experts)]) for _ in range(layers)).double()


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(fssdp.ArgumentError) as caught:
        call()
    return str(caught.value)


def evaluated(rank: int) -> None:
    """Experts of other ranks have the mode of the layer, too."""
    layers, whole = dropping(), dropping().eval()
    shard_experts(list(layers), solver=SOLVERS["everywhere"])
    layers.eval()
    with torch.no_grad():
        expected = together(whole, *choices(rank))
        close(together(layers, *choices(rank)), expected)
        layers.train()
        assert (together(layers, *choices(rank)) - expected).abs().max() > 0.01


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    run_ranks(2, evaluated)


def trained_after_evaluation(rank: int) -> None:
    """As from_pretrained gives it: sharded in evaluation. A rank may own nothing."""
    layers = dropping().eval()
    layout = fssdp.table_layout([0] * 6, ranks=2)
    shard_experts(list(layers), layouts=[layout] * 2, solver=SOLVERS["everywhere"])
    with torch.no_grad():
        calm = together(layers, *choices(rank))
        layers.train()
        assert (together(layers, *choices(rank)) - calm).abs().max() > 0.01
        layers.eval()
        close(together(layers, *choices(rank)), calm)


def test_dropout_is_on_though_it_was_off_when_experts_were_sharded() -> None:
    run_ranks(2, trained_after_evaluation)


def loads_without_train(rank: int) -> list[list[int]]:
    layers = make().eval()
    experts = shard_experts(list(layers))
    together(layers, *choices(rank)).sum().backward()
    experts.step()
    return experts.expected_loads()


def test_loads_count_where_gradients_do() -> None:
    assert sum(run_ranks(2, loads_without_train)[0][0]) == 20


def loads_of_checkpoints(rank: int, reentrant: bool) -> list[list[int]]:
    layers = make()
    experts = shard_experts(list(layers))
    x, index, weights = choices(rank)
    x.requires_grad_()
    for layer in layers:
        x = checkpoint(layer, x, index, weights, use_reentrant=reentrant)
    x.sum().backward()
    experts.step()
    return experts.expected_loads()


@pytest.mark.parametrize("reentrant", [False, True])
def test_loads_count_once_under_activation_checkpointing(reentrant: bool) -> None:
    loads = run_ranks(2, loads_of_checkpoints, reentrant)[0]
    assert [sum(of_layer) for of_layer in loads] == [20, 20]


def normed(rank: int) -> None:
    """Each module with parametrizations is of a class of its own."""
    def model() -> nn.ModuleList:
        torch.manual_seed(4)
        layer = Listed([weight_norm(nn.Linear(6, 6)) for _ in range(6)])
        return nn.ModuleList([layer]).double()

    layers, whole = model(), model()
    experts = shard_experts(list(layers), solver=SOLVERS["everywhere"])
    close(together(layers, *choices(rank)), together(whole, *choices(rank)))
    together(layers, *choices(rank)).sum().backward()
    experts.step()
    assert all(p.grad is not None for p in experts.parameters())


def test_experts_may_have_parametrizations() -> None:
    run_ranks(2, normed)


def compiled(rank: int, backend: str) -> None:
    layers, whole = make(), make()
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    run = torch.compile(lambda *tokens: together(layers, *tokens), backend=backend)
    for _ in range(2):
        out = run(*choices(rank))
        close(out, together(whole, *choices(rank)))
        out.square().sum().backward()
        experts.step()
        check_gradients(layers, experts, expected_gradients(2, False), rank)


def compiled_experts(rank: int) -> None:
    layers = make()
    for expert in (expert for layer in layers for expert in layer):
        expert.compile(backend="eager")
    experts = shard_experts(list(layers), solver=SOLVERS["everywhere"])
    for _ in range(2):
        together(layers, *choices(rank)).square().sum().backward()
        experts.step()
        check_gradients(layers, experts, expected_gradients(2, False), rank)


def test_experts_may_be_compiled() -> None:
    run_ranks(2, compiled_experts)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_models_may_be_compiled(backend: str) -> None:
    run_ranks(2, compiled, backend)


def hooked(rank: int) -> list[int]:
    layers = make(1)
    shard_experts(list(layers), layouts=[fssdp.block_layout(experts=6, ranks=2)])
    calls: list[int] = []
    for e in range(3 * rank, 3 * rank + 3):
        layers[0][e].register_forward_hook(lambda *_, e=e: calls.append(e))
    x = torch.ones(6, 6, dtype=torch.float64)
    layers[0](x, torch.arange(6)[:, None], torch.ones(6, 1))
    return calls


def test_each_owned_expert_computes_itself() -> None:
    assert run_ranks(2, hooked) == [[0, 1, 2], [3, 4, 5]]


def different(make_second: Callable[[], nn.Module]) -> str:
    layer = Listed([Dropping(), make_second()])
    return refusal(lambda: shard_experts(layer))


def alike_but(_: int, kind: str) -> str:
    if kind == "activation":
        return different(lambda: Dropping(act=torch.tanh))
    if kind == "function":
        return different(lambda: Dropping(act=F.relu))
    if kind == "rate":
        return different(lambda: Dropping(drop=0.25))
    if kind == "module":
        second = Dropping()
        second.drop = nn.Identity()
        return different(lambda: second)
    if kind == "tied inside":
        tied = [nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)) for _ in range(2)]
        for expert in tied:
            expert[1].weight = expert[0].weight
        return refusal(lambda: shard_experts(Listed(tied)))
    if kind == "tied":
        first, second = Dropping(), Dropping()
        second.up.weight = first.up.weight
        return refusal(lambda: shard_experts(Listed([first, second])))
    if kind == "lists":
        return refusal(lambda: shard_experts(nn.ModuleList([Listed([Dropping()]), Listed([Dropping()])])))
    if kind == "buffer":
        stacked = StackedExperts(SHAPE)
        stacked.register_buffer("bias", torch.zeros(6))
        return refusal(lambda: shard_experts(stacked))
    if kind == "tied stacks":
        stacked = StackedExperts(SHAPE)
        stacked.w3 = stacked.w1
        return refusal(lambda: shard_experts(stacked))
    if kind == "meta":
        with torch.device("meta"):
            layer = Listed([Dropping()])
        return refusal(lambda: shard_experts(layer))
    if kind == "twice":
        layers = [*make()]
        shard_experts(layers)
        return refusal(lambda: shard_experts(layers))
    assert kind == "listed twice"
    layer = make(1)[0]
    return refusal(lambda: shard_experts([layer, layer]))


REFUSED = {
    "activation": "act is",
    "function": "act is relu; expected silu, as in expert 0",
    "rate": "expert 1, drop: p is 0.25; expected 0.5, as in expert 0",
    "module": "expert 1, drop is a Identity; expected a Dropout",
    "tied inside": "1.weight of expert 0 is the same parameter as 0.weight of expert 0",
    "tied": "up.weight of expert 1 is the same parameter as up.weight of expert 0",
    "lists": "expert 0 is a ModuleList",
    "buffer": "the buffer bias is [6]",
    "tied stacks": "w3 is a parameter of this or another layer by another name",
    "meta": "layer 0 is on the meta device; expected device=",
    "twice": "layer 0 is sharded already",
    "listed twice": "listed as two layers",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_compute_something_else_is_refused(kind: str) -> None:
    assert REFUSED[kind] in run_ranks(1, alike_but, kind)[0]


def made_without_memory(rank: int, stacked: bool) -> None:
    """Each rank allocates what it owns, and nothing else."""
    kind = StackedExperts if stacked else ListedExperts
    with torch.device("meta"):
        layers = nn.ModuleList(kind(SHAPE) for _ in range(2)).double()
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"], device="cpu")
    assert all(p.device.type == "cpu" and p.isnan().all() for p in experts.parameters())
    whole = make(stacked=stacked)
    experts.load_full_tensors(whole.state_dict(), layers)
    close(together(layers, *choices(rank)), together(whole, *choices(rank)))
    together(layers, *choices(rank)).square().sum().backward()
    experts.step()
    check_gradients(layers, experts, expected_gradients(2, stacked), rank)


@both_kinds
def test_models_on_the_meta_device_get_memory_for_what_a_rank_owns(stacked: bool) -> None:
    run_ranks(2, made_without_memory, stacked)


def other_weights(rank: int, stacked: bool) -> str:
    """Evaluated with one set of weights, then with another one, then trained on."""
    layers, whole = make(stacked=stacked), make(stacked=stacked)
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    tokens = choices(rank)
    first = experts.full_tensors()
    better = {name: t * 1.5 for name, t in first.items()}
    with torch.no_grad():
        close(together(layers, *tokens), together(whole, *tokens))
        for p in whole.parameters():
            p.mul_(1.5)
        experts.load_full_tensors(better)
        close(together(layers, *tokens), together(whole, *tokens))
        for p in experts.parameters():
            p.div_(1.5)
    said = refusal(lambda: together(layers, *tokens))
    experts.step()
    with torch.no_grad():
        for p in whole.parameters():
            p.div_(1.5)
        close(together(layers, *tokens), together(whole, *tokens))
    together(layers, *tokens).sum().backward()
    assert "after step()" in refusal(lambda: experts.load_full_tensors(first))
    return said


@both_kinds
def test_weights_that_change_between_forward_passes_are_seen(stacked: bool) -> None:
    for said in run_ranks(2, other_weights, stacked):
        assert "was written after its experts were gathered; expected experts.step()" in said


def replaced(rank: int, how: str, stacked: bool) -> str:
    layers = make(stacked=stacked)
    experts = shard_experts(list(layers))
    if how == "assign":
        state = {name: t.clone() for name, t in layers.state_dict().items()} if not stacked else {
            name: p.detach().clone() for name, p in layers.named_parameters()
        }
        layers.load_state_dict(state, assign=True)
    elif how == "data":
        for p in experts.parameters():
            p.data = p.data.clone()
    else:
        layers.float()
    return refusal(lambda: together(layers, *choices(rank)))


@both_kinds
@pytest.mark.parametrize(
    "how, says",
    [
        ("assign", "load_state_dict without assign=True"),
        ("data", "has other memory than when it was sharded"),
        ("float", "now torch.float32 on cpu; expected .to() and the like before shard_experts"),
    ],
)
def test_parameters_whose_memory_is_replaced_are_refused(how: str, says: str, stacked: bool) -> None:
    assert says in run_ranks(1, replaced, how, stacked)[0]


def unfrozen(rank: int) -> str:
    layers = make()
    layers.requires_grad_(False)
    experts = shard_experts(list(layers))
    layers.requires_grad_(True)
    said = refusal(lambda: together(layers, *choices(rank)))
    experts.requires_grad_()
    together(layers, *choices(rank)).sum().backward()
    experts.step()
    assert all(p.grad is not None for p in experts.parameters())
    return said


def test_experts_that_would_not_train_are_refused() -> None:
    assert "expected experts.requires_grad_(True)" in run_ranks(1, unfrozen)[0]


def two_losses(rank: int, stacked: bool, options: dict[str, Any]) -> None:
    """Of one forward pass, each with a backward pass of its own."""
    def losses(layers: nn.ModuleList, r: int) -> tuple[Tensor, Tensor]:
        out = together(layers, *choices(r))
        return out.square().sum(), out.sin().sum()

    layers, whole = make(stacked=stacked), make(stacked=stacked)
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"], **options)
    first, second = losses(layers, rank)
    first.backward(retain_graph=True)
    second.backward()
    experts.step()
    for r in range(2):
        (sum(losses(whole, r)) / 2).backward()
    expected = {n: p.grad for n, p in whole.named_parameters()}
    for name, p in layers.named_parameters():
        owned = [int(e) for e, _ in experts.layouts[int(name[0])].owned(rank)]
        right = expected[name][owned] if stacked else expected[name]
        largest = float(right.abs().max())
        assert torch.allclose(p.grad, right, rtol=0, atol=(1e-3 if options else 1e-12) * largest)


@both_kinds
@pytest.mark.parametrize("options", [{}, {"param_dtype": torch.float32, "reduce_dtype": torch.float64}])
def test_two_backward_passes_of_one_forward_pass_add_up(stacked: bool, options: dict[str, Any]) -> None:
    run_ranks(2, two_losses, stacked, options)


def penalty(rank: int) -> str:
    layers = make()
    shard_experts(list(layers))
    x, index, weights = choices(rank)
    out = together(layers, x.requires_grad_(), index, weights)
    with pytest.raises(RuntimeError) as caught:
        (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        gradient.square().sum().backward()
    return str(caught.value)


def test_gradients_of_gradients_are_refused() -> None:
    assert "once_differentiable" in run_ranks(1, penalty)[0]


def inference(rank: int, stacked: bool) -> None:
    layers, whole = make(stacked=stacked), make(stacked=stacked)
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    for _ in range(2):
        with torch.inference_mode():
            close(together(layers, *choices(rank)), together(whole, *choices(rank)))
        together(layers, *choices(rank)).square().sum().backward()
        experts.step()
        assert all(p.grad is not None for p in experts.parameters())


@both_kinds
def test_inference_mode_before_and_between_training(stacked: bool) -> None:
    run_ranks(2, inference, stacked)


def cast(rank: int, stacked: bool) -> None:
    """Rows in fp32 under autocast; all of them are for one rank's expert."""
    layers = make(1, stacked=stacked, dtype=torch.float32)
    experts = shard_experts(list(layers), layouts=[fssdp.block_layout(experts=6, ranks=2)])
    x = choices(rank)[0].float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        out = layers[0](x, torch.zeros(5, 1, dtype=torch.long), torch.ones(5, 1))
    assert out.dtype == torch.float32
    out.square().sum().backward()
    experts.step()
    assert x.grad is not None


@both_kinds
def test_ranks_without_rows_know_what_the_others_send(stacked: bool) -> None:
    run_ranks(2, cast, stacked)


def wrong_choices(rank: int, kind: str) -> str:
    layers = make(1)
    shard_experts(list(layers))
    x, index, weights = choices(rank)
    if kind == "negative":
        index[1, 1] = -1
    elif kind == "too large":
        index[1, 1] = 6
    elif kind == "floats":
        index = index.double()
    elif kind == "one dimension":
        index, weights = index[:, 0], weights[:, 0]
    elif kind == "scores":
        weights = torch.ones(5, 6)
    elif kind == "rows":
        index, weights = index[:3], weights[:3]
    else:
        x = x[None]
    return refusal(lambda: layers[0](x, index, weights))


CHOICES = {
    "negative": "expert -1 is chosen; expected numbers from 0 to 5",
    "too large": "expert 6 is chosen; expected numbers from 0 to 5",
    "floats": "of torch.float64; expected whole numbers",
    "one dimension": "the chosen experts are [5]; expected [5, per_token]",
    "scores": "the weights are [5, 6]; expected [5, 2]",
    "rows": "the chosen experts are [3, 2]; expected [5, per_token]",
    "batch": "tokens are [1, 5, 6]; expected [tokens, width]",
}


@pytest.mark.parametrize("kind", CHOICES)
def test_choices_that_do_not_fit_are_refused(kind: str) -> None:
    assert CHOICES[kind] in run_ranks(1, wrong_choices, kind)[0]


def made_otherwise(rank: int) -> str:
    layers = Listed([nn.Linear(6, 4) for _ in range(2)])
    shard_experts(layers)
    return refusal(lambda: layers(torch.ones(2, 6), torch.zeros(2, 1).long(), torch.ones(2, 1)))


def test_experts_that_change_the_width_are_refused() -> None:
    assert "made [2, 4] of rows [2, 6]" in run_ranks(1, made_otherwise)[0]


def forgetful(rank: int, stacked: bool) -> tuple[str, str]:
    layers = make(stacked=stacked)
    before = torch.optim.SGD(layers.parameters(), lr=0.1)
    experts = shard_experts(list(layers))
    after = torch.optim.SGD(layers.parameters(), lr=0.1)
    together(layers, *choices(rank)).sum().backward()
    early = refusal(after.step)
    experts.step()
    after.step()
    return early, refusal(before.step) if stacked else ""


@both_kinds
def test_optimizers_that_would_pass_over_experts_are_refused(stacked: bool) -> None:
    early, before = run_ranks(2, forgetful, stacked)[0]
    assert "expected experts.step() before it" in early
    assert not stacked or "from before shard_experts" in before


def clipped(rank: int) -> tuple[float, float]:
    def prepare() -> tuple[nn.ModuleList, ShardedExperts, nn.Parameter]:
        layers = make()
        experts = shard_experts(list(layers))
        together(layers, *choices(rank)).square().sum().backward()
        experts.step()
        dense = nn.Parameter(torch.ones(3, dtype=torch.float64))
        dense.grad = torch.full_like(dense, 2)
        return layers, experts, dense

    layers, experts, dense = prepare()
    one = float(experts.clip_grad_norm_(1.0, [dense]))
    layers, experts, dense = prepare()
    both = float(experts.clip_grad_norm_(1.0, [dense, *layers.parameters()]))
    layers, experts, dense = prepare()
    assert float(experts.clip_grad_norm_(1.0, dense)) == one
    return one, both


def test_clipping_counts_experts_once() -> None:
    found = run_ranks(2, clipped)
    assert len({norm for of_rank in found for norm in of_rank}) == 1


def moved(rank: int, stacked: bool, kind: str) -> None:
    """Trained with changing owners, as without."""
    layers, whole = make(stacked=stacked), make(stacked=stacked)
    for model in (layers, whole):
        if kind == "frozen":
            for name, p in model.named_parameters():
                p.requires_grad_("w2" not in name)
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])

    def optimizers(model: nn.ModuleList) -> list[torch.optim.Optimizer]:
        some = [p for name, p in model.named_parameters() if p.requires_grad and "w1" in name]
        rest = [p for name, p in model.named_parameters() if p.requires_grad and "w1" not in name]
        if kind == "several":
            first = torch.optim.SGD(some, lr=1e-3, momentum=0.9)
            return [first, torch.optim.AdamW(rest, lr=0.01)]
        return [torch.optim.AdamW([*some, *rest], lr=0.01)]

    ours, theirs = optimizers(layers), optimizers(whole)
    for step in range(4):
        (together(layers, *choices(rank)).square().sum() * 1e-6).backward()
        experts.step()
        for r in range(2):
            (together(whole, *choices(r)).square().sum() * 1e-6 / 2).backward()
        for p in whole.parameters():
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        for optimizer in (*ours, *theirs):
            optimizer.step()
            optimizer.zero_grad()
        layout = (fssdp.cyclic_layout, fssdp.block_layout)[step % 2](experts=6, ranks=2)
        assert experts.reshard(ours if kind == "several" else ours[0], [layout] * 2)
    expected = dict(whole.named_parameters())
    for name, t in experts.full_tensors(layers).items():
        torch.testing.assert_close(t, expected[name].detach(), rtol=0, atol=1e-7)


@both_kinds
@pytest.mark.parametrize("kind", ["one", "several", "frozen"])
def test_owners_change_with_any_optimizers(stacked: bool, kind: str) -> None:
    run_ranks(2, moved, stacked, kind)


def not_moved(rank: int) -> str:
    layers = make(1)
    experts = shard_experts(list(layers))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for p in experts.parameters():  # as Adafactor does
        optimizer.state[p]["row_var"] = torch.zeros(p.shape[0])
    layout = fssdp.cyclic_layout(experts=6, ranks=2)
    return refusal(lambda: experts.reshard(optimizer, [layout]))


def test_state_that_cannot_move_is_refused() -> None:
    for said in run_ranks(2, not_moved):
        assert "the optimizer keeps row_var [" in said


def state_before_training(rank: int) -> None:
    """Asking for the optimizer's tensors first changes nothing."""
    ends = []
    for ask in (False, True):
        layers = make()
        experts = shard_experts(list(layers))
        optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
        if ask:
            experts.optimizer_tensors(optimizer)
        for _ in range(2):
            together(layers, *choices(rank)).square().sum().backward()
            experts.step()
            optimizer.step()
        ends.append(experts.full_tensors())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_making_an_optimizers_state_counts_no_step() -> None:
    run_ranks(2, state_before_training)


def train(rank: int, ranks: int, stacked: bool, state: Any) -> tuple[dict[str, Tensor], Any]:
    """Two steps, on the same tokens in all; from weights and moments of all experts, if any."""
    layers = make(stacked=stacked)
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    if state:
        experts.load_full_tensors(state[0], layers)
        experts.load_full_optimizer_tensors(state[1], optimizer, layers)
    x, index, weights = choices(7, tokens=12)
    mine = slice(12 * rank // ranks, 12 * (rank + 1) // ranks)
    for _ in range(2):
        (together(layers, x[mine], index[mine], weights[mine]).square().sum() * ranks).backward()
        experts.step()
        optimizer.step()
    return experts.full_tensors(layers), experts.full_optimizer_tensors(optimizer, layers)


@both_kinds
def test_moments_of_all_experts_go_to_any_ranks(stacked: bool) -> None:
    first = run_ranks(2, train, 2, stacked, None)[1]
    assert {name.rsplit(".", 1)[1] for name in first[1]} == {"exp_avg", "exp_avg_sq", "step"}
    on_two = run_ranks(2, train, 2, stacked, first)[0]
    on_three = run_ranks(3, train, 3, stacked, first)[2]
    for of_two, of_three in zip(on_two, on_three, strict=True):
        assert of_two.keys() == of_three.keys()
        for name in of_two:
            close(of_three[name], of_two[name])


def copied(rank: int) -> tuple[str, str]:
    layers = make(1)
    shard_experts(list(layers), layouts=[fssdp.table_layout([0, 0, 0, 1, 1, 1], ranks=2)])
    other = layers[0][3 if rank == 0 else 0]
    assert not hasattr(other, "w1")
    with pytest.raises(AttributeError) as caught:
        other.w1
    return refusal(lambda: copy.deepcopy(layers)), str(caught.value)


def test_copies_and_experts_of_other_ranks_say_what_to_do() -> None:
    copies, elsewhere = run_ranks(2, copied)[0]
    assert "cannot be copied; expected a copy made before shard_experts" in copies
    assert "w1 of expert 3, which is owned by rank 1" in elsewhere
