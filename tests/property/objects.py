# ruff: noqa: E501
"""Words for `statements`: what programs do with tensors by way of Python's objects, classes, containers and contexts."""

PRELUDE = """\
import collections, contextlib, copy, dataclasses, functools, itertools, math, operator, random
import numpy as np
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass
class Record:
    t: object
    n: int = 1
    seen: list = dataclasses.field(default_factory=list)
    @property
    def total(self):
        self.n += 1
        return self.t.sum() * self.n
    def __iter__(self):
        yield self.t
        yield self.t * self.n
    def __getitem__(self, i): return self.t[i] * self.n
    def __add__(self, other): return Record(self.t + other, self.n + 1, self.seen)
    def __call__(self, x): return x * self.n
class Counted:
    made = 0
    def __init__(self, state): self.state = state
    def __enter__(self):
        self.state.n += 1
        Counted.made += 1
        return self
    def __exit__(self, kind, error, trace):
        self.state.n -= 1
        self.state.log.append(kind and kind.__name__)
        return kind is KeyError
class Stop(Exception):
    def __init__(self, t):
        super().__init__("stopped")
        self.t = t
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)
    @staticmethod
    def backward(ctx, g):
        state.n += 1
        return g * 2
class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        n = (x > 0)
        ctx.mark_non_differentiable(n)
        return x * y, x + y, n
    @staticmethod
    def backward(ctx, g, h, _):
        x, y = ctx.saved_tensors
        state.log.append((g is None, h is None, ctx.needs_input_grad))
        g = torch.zeros_like(x) if g is None else g
        return g * y + (0 if h is None else h), g * x if ctx.needs_input_grad[1] else None
@contextlib.contextmanager
def scaled(state, by):
    old, state.k = state.k, state.k * by
    try:
        yield state.k
    finally:
        state.k = old
def returned_in_finally(x, y):
    try:
        return x * y
    finally:
        state.n += 1
def returned_early(x):
    for i, row in enumerate(x.unbind()):
        if row.sum() > 0:
            return row * i
    return x.sum()
def goes_on(state):
    state.rounds = getattr(state, "rounds", 0) + 1
    return state.rounds % 3 > 0 and state.rounds < 50
def recursed(x, n):
    return x if n <= 0 else recursed(x * 0.5 + n, n - 1)
def remembered(x, seen=[]):
    seen.append(x.sum().detach())
    return seen[-1] + len(seen)
def remembered_by_shape(x, known={}):
    if x.shape not in known: known[x.shape] = x.detach().clone()
    return known[x.shape]
def counting():
    n = 0
    def count(x):
        nonlocal n
        n += 1
        return x * n
    return count
def averaged(x, rate=0.5):
    state.average = x.detach().sum() if state.average is None else state.average * rate + x.detach().sum() * (1 - rate)
    return state.average
def raised_with(x):
    if x.sum() > 0: raise Stop(x * 2)
    return x
def caught(x):
    try:
        return raised_with(x)
    except Stop as e:
        return e.t
    finally:
        state.log.append("left")
def pushed(x):
    state.queue.append(x.detach())
    return torch.stack([p.sum() for p in state.queue]).sum()
def sent(x):
    total = 0
    while True:
        y = yield total
        if y is None: return x
        total = total + y.sum()
def ran(x):
    g = sent(x)
    next(g)
    g.send(x)
    return g.send(x * 2)
def delegated(x):
    r = yield from parts(x)
    yield x.sum()
@functools.lru_cache(maxsize=None)
def memoized(n):
    state.n += 1
    return torch.ones(4) * n
def of_kind(x):
    match x:
        case torch.Tensor() if x.is_floating_point(): return x * 2
        case torch.Tensor(): return x + 1
state.average, state.queue, state.rec, state.count, state.a = None, collections.deque(maxlen=3), Record(make(5, 4)), counting(), np.arange(4, dtype=np.float32)
state.shared, state.generator, state.pair = torch.from_numpy(state.a), torch.Generator().manual_seed(3), Pair(make(6, 4), 2)
state.parts = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False)])
for p in state.parts.parameters(): p.data.copy_(make(3, *p.shape))
"""

EXPRESSIONS = (
    "state.rec.total|sum(state.rec)|state.rec[0]|(state.rec + @).t|state.rec(@)|state.pair.a * state.pair.b|Pair(@, @).b|state.pair._replace(a=@).a|copy.copy(state.rec).total|copy.deepcopy(state.rec).t|copy.deepcopy(@.detach())|copy.deepcopy(state.net)(@)|copy.deepcopy(state.l)[0]|dataclasses.replace(state.rec, t=@).total|"
    "returned_in_finally(@, @)|returned_early(@)|recursed(@, k)|recursed(@, #)|remembered(@)|remembered_by_shape(@)|state.count(@)|averaged(@)|averaged(@, #)|caught(@)|pushed(@)|ran(@)|sum(p.sum() for p in delegated(@))|memoized(k)|memoized(#) + @|of_kind(@)|"
    "sum(i * p.sum() for i, p in enumerate([@, @]))|sum((p * q).sum() for p, q in zip(@.unbind(), @.unbind()))|sorted([@.sum(), @.sum()])[0]|sorted(@.flatten(), reverse=True)[0]|max(@.flatten().unbind())|min(@.sum(), @.sum())|functools.reduce(torch.add, @.unbind())|functools.reduce(operator.mul, [@, @], 1)|list(reversed(@.unbind()))[0]|list(map(torch.sin, [@, @]))[1]|list(filter(lambda p: p.sum() > 0, [@, @]) )[0]|[p for p in (@, @) if p.dim() > 1][0]|{i: p for i, p in enumerate(@)}[0]|next(iter(@))|[*@][-1]|(lambda *p, **q: p[0] + q['n'])(@, n=#)|torch.stack(list(itertools.accumulate(@.unbind())))|list(itertools.chain(@.unbind(), [@]))[-1]|any(p.sum() > 0 for p in @) * @|all(p.sum() > 0 for p in @.unbind()) + @|"
    "state.shared|state.shared * @|torch.from_numpy(state.a) + 0|torch.tensor(state.a)|torch.as_tensor(state.a)|torch.from_numpy(@.detach().numpy() * 2)|torch.tensor(@.detach().numpy().sum())|@ * state.a[0]|@ * float(state.a.sum())|torch.from_numpy(np.sin(state.a))|@ + np.float32(#)|@ * np.ones(4, dtype=np.float32)[0]|torch.tensor(np.asarray(@.detach()))|torch.tensor([p.item() for p in @.flatten()[:2]])|torch.tensor([[#, #], [k, 2]])|torch.tensor([@.sum(), @.sum()])|torch.stack([torch.tensor(i * k) for i in range(3)])|"
    "torch.rand(3, generator=state.generator)|torch.randn(@.shape, generator=state.generator)|torch.randperm(5, generator=state.generator)|torch.rand(2) * random.random()|@ * random.choice([1, 2, 3])|@ + np.random.rand()|torch.randint(0, 3, (2,), generator=state.generator)|torch.multinomial(@.abs().float() + 1, 2, replacement=True)|torch.normal(@, 1.0)|torch.rand(k)|torch.randint(0, 1 + k, (2,))|F.dropout(@, 0.5, state.net.training)|torch.distributions.Normal(@, 1.0).sample()|torch.distributions.Categorical(logits=@).log_prob(torch.tensor(0))|"
    "Doubled.apply(@.clone())|Doubled.apply(@ * 1)|Both.apply(@, @)[0]|Both.apply(@, @)[1]|sum(Both.apply(@, @)[:2])|Both.apply(@, @)[2]|state.parts[0](@)|state.parts[#](@)|functools.reduce(lambda p, m: m(p).relu(), state.parts, @)|torch.nn.Sequential(*state.parts)(@)|sum(p.sum() for p in state.parts.parameters())|sum(p.norm() for n, p in state.net.named_parameters())|state.net.state_dict()['weight'] * 1|next(state.net.parameters())|[p for p in state.net.buffers()][0]|torch.nn.Linear(4, 2)(@)|torch.nn.Parameter(@.detach())|torch.nn.Parameter(@.clone().detach(), requires_grad=False)|F.linear(@, state.parts[0].weight, state.parts[0].bias)|"
    "@ if isinstance(@, torch.Tensor) else 0|@ * (1 if @.is_floating_point() else 2)|(@ if @.shape[0] > 2 else @) + 0|@ * math.sqrt(@.shape[-1])|@ * math.prod(@.shape)|@ / max(@.shape)|@.view(*@.shape)|@.reshape(@.shape[::-1])|@.reshape(-1, @.shape[-1])|@[: len(@) // 2]|@[: @.shape[0] - 1]|@[-k:]|@[k % 2 ::2]|@[slice(None, k)]|@[..., :k]|@[@.shape[0] - 1]|@[int(@.argmax()) % 2]|@[tuple(0 for _ in @.shape)]|@.sum(tuple(range(@.dim())))|torch.zeros(@.shape[0], k)|torch.zeros(k, 0)|torch.ones(())|torch.empty(0)|torch.cat([@, torch.empty(0)])|@.new_zeros(@.shape[0], 2)|@.sum().expand(k)|torch.full((k, 2), @.sum().item())|torch.arange(k, @.numel() + k)|torch.arange(0, k, 0.5)|torch.nonzero(@, as_tuple=True)[0]|torch.where(@)[-1]|torch.where(@ > 0)[0]|@[torch.where(@ > 0)]|@[~(@ > 0)]|@[@ > @.mean()]|@[@.sum(-1) > 0]|@[(@ > 0) & (@ < 2)].sum()|@.masked_select(@ > 0).mean()|@.nonzero().flatten()|@[@.nonzero()[0]]|torch.unique(@, return_counts=True)[1]|torch.unique_consecutive(@)|torch.split(@, [1, @.shape[0] - 1])[1]|torch.chunk(@, k)[0]|torch.stack([@[i] for i in range(@.shape[0])])|torch.stack([@[:, i].sum() for i in range(@.shape[1])])|torch.cat([p[None] for p in @])|torch.atleast_2d(@)|torch.concat([@.flatten(), @.flatten()])|"
    "torch.autograd.grad(@.sum() * k, state.leaf, allow_unused=True)[0]|torch.autograd.grad((state.leaf * @).sum(), state.leaf)[0]|torch.autograd.grad((state.net(@) ** 2).sum(), list(state.net.parameters()), create_graph=True)[0]|torch.autograd.grad([@.sum(), (@ * 2).sum()], [@])[0]|torch.autograd.grad(@, @, torch.ones_like(@))[0]|torch.autograd.grad((@ * @).sum(), [@], retain_graph=True)[0]|state.leaf.grad|state.leaf.grad * 2|state.net.weight.grad|@.grad * @|@.detach().requires_grad_() * @|@.data * 2|@.detach().clone().requires_grad_().exp()|@.clone().detach_()|@.resolve_conj()|@.clone().t_()|@.clone().fill_(@.sum())|torch.utils.checkpoint.checkpoint(recursed, @, k, use_reentrant=False)|"
    "@.apply_(lambda v: v)|@.__class__(@)|torch.Tensor([1.0, k])|torch.Tensor(2, 3).fill_(k)|torch.LongTensor([k, 1])|torch.tensor(@)|torch.tensor(#, dtype=&)|torch.tensor([True, k])|torch.scalar_tensor(k)|torch.asarray(@)|torch.asarray([1, k])|@.double().float()|@.bfloat16() * 1.1|@.half() + 1|@.int() // 2|@.bool() | True|@.to(torch.complex64) * 1j|@.float() ** k|@ ** -k|k ** @|(@ > 0) * k|(@ > 0).sum() / k|k / @|k // @|@ % k|k % @|divmod(@, 2)[1]|round(@.sum(), 1)|-@.bool().int()|abs(@).sqrt()|+@|@.__radd__(k)|torch.tensor(3) * @|@ * torch.tensor(2.0, dtype=torch.float64)|@ + torch.tensor(True)|@.sum() / @.numel()|@.shape.numel() * @|@ * @.sum().item()|@ + @.flatten()[-1].item()|bool(@.sum() > 0) * @|int(@.sum()) + @|@ @ @ if @.dim() == 2 else @|(@.sum() > 0) + @|float(@.min()) - @|len(@) * @|@.tolist()[0] * torch.ones(2)|complex(@.sum().item(), 1) * @"
).split("|")

EFFECTS = (
    "state.rec.t = @|state.rec.n += 1|state.rec.seen.append(@)|state.rec.seen = [@.detach()]|state.rec = Record(@, k)|state.rec = state.rec + #|state.rec = copy.copy(state.rec)|state.rec.t += 1|state.pair = Pair(@, #)|state.pair = state.pair._replace(b=#)|state.count = counting()|state.average = None|state.queue.append(@)|state.queue.popleft() if state.queue else None|state.queue.clear()|state.extra = @|del state.extra|getattr(state, 'extra', None) is None or state.extra.add_(1)|setattr(state, 'extra', #)|"
    "state.a += 1|state.a[0] = #|state.a[1:] *= 2|state.a = state.a * 2|np.add(state.a, 1, out=state.a)|state.shared.add_(#)|state.shared.mul_(@)|state.shared = torch.from_numpy(state.a)|state.a[:] = @.detach().flatten()[:4].numpy()|@.detach().numpy()[...] = 1|state.log.append(state.a.sum())|state.log.append(state.a.tolist())|state.log.append(@.detach().numpy())|np.copyto(state.a, 2)|"
    "state.generator.manual_seed(#)|state.generator = torch.Generator().manual_seed(k)|torch.manual_seed(k)|state.log.append(torch.initial_seed())|random.seed(k)|np.random.seed(3)|state.log.append(torch.rand(1).item())|state.rng = torch.get_rng_state()|torch.set_rng_state(state.rng)|state.gs = state.generator.get_state()|state.generator.set_state(state.gs)|$.uniform_(generator=state.generator)|$.normal_(0, 1, generator=state.generator)|"
    "state.hook = $.register_hook(lambda g: state.log.append(g))|$.register_hook(lambda g: g + state.n)|state.hook.remove()|state.leaf.register_hook(lambda g: g * k)|state.net.register_forward_hook(lambda m, i, o: o * 2)|state.net.register_forward_pre_hook(lambda m, i: state.log.append(len(i)))|state.leaf.register_post_accumulate_grad_hook(lambda p: state.log.append(p.grad.sum()))|state.net.register_full_backward_hook(lambda m, i, o: state.log.append(o[0]))|$.retain_grad()|state.log.append($.grad)|"
    "(state.leaf * @).sum().backward()|state.net(@).sum().backward()|functools.reduce(lambda p, m: m(p), state.parts, @).sum().backward()|$.sum().backward(retain_graph=True); $.sum().backward()|$.mean().backward(create_graph=True)|$.backward(gradient=torch.ones_like($), retain_graph=True)|state.leaf.grad = @.detach()|state.leaf.grad = torch.ones_like(state.leaf)|state.leaf.grad.mul_(2)|state.leaf.grad.add_(@)|state.leaf.grad.zero_()|state.leaf.data = @.detach()|state.leaf.data.add_(#)|state.leaf.data[0] = #|state.leaf.requires_grad_(False)|state.leaf.requires_grad = not state.leaf.requires_grad|state.leaf = torch.nn.Parameter(@.detach())|state.leaf.detach().zero_()|$.requires_grad = True|$.requires_grad_($.is_floating_point())|state.net.weight = torch.nn.Parameter(@.detach())|state.net.load_state_dict({k: v * 0.5 for k, v in state.net.state_dict().items()})|state.net.mean = state.net.mean * 2|state.net.mean += 1|state.net.steps = 0|state.net.extra = torch.nn.Linear(4, 4)|state.net.register_buffer('b', @.detach())|state.net.double()|state.net.float()|state.net.half().float()|state.net.apply(lambda m: m.zero_grad())|state.parts.append(torch.nn.Identity())|state.parts[0] = state.parts[1]|state.parts.eval()|state.net.train(k > 1)|state.net.weight, state.leaf = state.leaf, state.net.weight|torch.utils.swap_tensors(state.t, torch.ones(2))|state.t.set_(@.detach().clone())|state.t.data = @.detach()|state.t.resize_(2, 2).zero_()|state.t.t_()|state.t.squeeze_()|state.t.unsqueeze_(0)|state.t.detach_()|state.t.requires_grad_()|state.t[k:] = #|state.t.view(-1)[0] = #|state.t = state.t[1:]|state.t = @.clone()|state.t, state.d['t'] = state.d['t'], state.t|state.t -= @|state.t.copy_(@)|"
    "state.l.extend([@, #])|state.l.insert(0, @)|state.l += [#]|state.l = [@, 3]|state.l.reverse()|state.l[-1:] = [@, #]|del state.l[1:]|state.l.sort(key=str)|state.l = list(state.l)|state.l.remove(3)|state.l.clear(); state.l.append(@)|state.d = dict(state.d)|state.d.setdefault('s', @)|state.d[k] = @|state.d[len(state.d)] = #|state.d.popitem()|state.d |= {'n': #}|state.d = {'n': 1, 't': @}|state.d['t'] += 1|state.d['t'][0] = #|state.d['t'].mul_(#)|state.d['t'] = state.d['t'] + @|state.d['l'] = [@]|state.d['l'].append(k)|state.s = {1, k}|state.s.add(#)|state.log.append(sorted(state.s))|state.log.append(list(state.d))|state.log.append(len(state.log))|state.log.append([p.shape for p in (@, @)])|state.log.append((k, state.k))|state.log.append(@)|state.log[-1:] = [#]|state.log.extend(@.unbind())|state.fn = lambda p: p * k|state.fn = torch.sin|state.fn = state.net|state.v = state.fn(@)|state.v = [@, {'a': @}]|state.v = @.sum() if state.v is None else state.v + @.sum()|state.v = None|"
    "state.log.append(type(@).__name__)|state.log.append(isinstance(@, torch.nn.Parameter))|state.log.append(f'{@.mean():.3f}')|state.log.append('%s' % @.sum())|state.log.append('{:>8.2f}'.format(@.sum().item()))|state.log.append(str(@))|state.log.append(f'{@!r}')|state.log.append(str(@.shape))|state.log.append(f'{k}:{state.n}')|state.log.append(repr(state.rec.n))|print(@)|print(f'{@.sum()} {k}')|print('loss', @.sum().item(), state.n)|state.log.append(@.sum().item())|state.log.append(@.shape[0] * k)|state.log.append(@ in [1, 2])|state.log.append(hash(@) == hash(@))|state.log.append(@.sum() == @.sum())|state.log.append(any(p is @ for p in state.log if p is not None))|state.log.append(id(@) == id(@))|state.log.append(@.nelement() > #)|state.log.append(@.storage_offset())|state.log.append(@.untyped_storage().nbytes())|state.log.append(@.is_set_to(@))|state.log.append(@.names)|state.log.append(@.ndim)|state.log.append(@.nbytes)|state.log.append(@.layout)|state.log.append(@.device)|state.log.append(torch.is_tensor(#))|state.log.append(torch.is_floating_point(@))|state.log.append(torch.result_type(@, #))|state.log.append(torch.promote_types(@.dtype, @.dtype))|state.log.append(torch.finfo(@.dtype).eps)|state.log.append(torch.is_inference_mode_enabled())|state.log.append(@.is_inference())|state.log.append(@.output_nr)|state.log.append(@.requires_grad and @.is_leaf)|state.log.append(torch.allclose(@, @))|state.log.append(torch.is_same_size(@, @))|state.log.append(@.equal(@))|state.log.append(@.is_same_size(@))|state.log.append(@.tolist() == @.tolist())|state.log.append(bool(@[0].sum()))|"
    "G = @.sum()|G = k|G = [G]|Record.n = #|Counted.made += 1|torch.set_grad_enabled(k > 1)|torch.set_grad_enabled(True)|torch.set_default_dtype(torch.float64)|torch.set_default_dtype(torch.float32)|k = @.shape[0]|k = int(@.sum()) % 3|k = @.sum().item()|k = not k|k = -k|k = max(k, #)|k = min(k, @.shape[0])|del v0|x, y = y, x|x = y = @|(x, y), z = (@, @), @|x = x if k else y|y = x.view(-1)|z = x|x += 1|x = x[:1]|x = x.clone(); x[0] = #|x *= y|_ = [p.add_(1) for p in (@.clone(), $)]|[p.mul_(2) for p in $.unbind()]|for p in $.unbind(): p.add_(#)|for i in range($.shape[0]): $[i] = i|for i in range(len($)): $[i] += $[i - 1]|for i, p in enumerate($): p.fill_(i)|while $.sum() > 8: $.mul_(0.5)|for n, p in state.net.named_parameters(): state.log.append((n, p.shape))|for p in state.net.parameters(): p.data.mul_(0.5)|for p, q in zip(state.parts.parameters(), state.net.parameters()): p.data.copy_(q.flatten()[:1].expand_as(p))|assert @.sum() > #, f'not {k}'|torch.add(@, @, out=state.t)|torch.mul(@, #, out=state.d['t'])|torch.sum(@, 0, out=state.t)|torch.max(@, 0, out=(state.t, state.i))|torch.sort(@, out=(state.t, state.i))|state.i = @.argsort()|state.i = torch.tensor([0, k])|$[state.i] = #|torch.nn.utils.clip_grad_norm_(state.net.parameters(), 1.0)|torch._foreach_mul_([$, state.t], 2)|torch._foreach_add_(list(state.net.parameters()), 1)|torch.nn.init.constant_(state.net.weight, #)|torch.nn.init.normal_(state.leaf)|state.net.zero_grad(set_to_none=False)|state.opt = torch.optim.SGD(state.parts.parameters(), 0.1, momentum=0.9)|state.opt = torch.optim.AdamW(state.net.parameters(), 0.1)|state.opt.step()|state.opt.zero_grad()|state.opt.param_groups[0]['lr'] = #|state.opt.state.clear()|state.sched = torch.optim.lr_scheduler.StepLR(state.opt, 1)|state.sched.step()|state.log.append(len(state.opt.state))"
).split("|")

VIEWS_WRITTEN = (
    "$.view(-1).add_(#)|$[0].mul_(2)|$[..., 0].copy_(@)|$.t()[0] = @|$[None][0, 0] = #|$.unsqueeze(0).add_(1)|$.narrow(0, 0, 1).zero_()|$.diagonal().add_(@)|$.chunk(2)[0].add_(#)|$[::2].sub_(@)|$[1:][0].fill_(#)|$.detach()[0] = #|$[k:].zero_()|$.select(0, 0).add_(@)|$.permute(1, 0).mul_(@)|$.reshape(-1)[0] = #|$.unfold(0, 2, 2)[0].add_(1)|$.movedim(0, 1).add_(1)|$.squeeze().add_(1)|$.data.view(-1)[0] = #|"
    "v0 = $[0]; v0.add_(#)|v0 = $[0]; $.mul_(2); v0.add_(@)|v0 = $.view(-1); v0[0] = @.sum(); $.mul_(2)|v0 = $.t(); $.add_(1); v0 = v0 * 2|v0 = $.clone(); v0[0] = @; v0[1:].mul_(@)|v0 = $ * 1; v0[0].mul_(@); v0.sum().backward()|v0 = $ * 2; v0[:1] = 0; v0.add_($)|v0 = $.detach(); v0.add_(1)|v0 = $.clone(); v0[v0 > 0] = @.sum()|v0 = $.exp(); v0.mul_(2)|v0 = $ * $; $.add_(1)|v0 = $.clone().unbind(); v0[0].add_(1); v0 = v0[0]|v0 = $.clone(); v0.view(-1)[1:] += v0.view(-1)[:-1]"
).split("|")

HEADS = (
    "with Counted(state):|with Counted(state) as c:|with scaled(state, 2) as k:|with scaled(state, #):|with contextlib.suppress(Exception):|with contextlib.nullcontext():|with contextlib.ExitStack() as stack:|with torch.inference_mode():|with torch.set_grad_enabled(k > 1):|with torch.set_grad_enabled(state.net.training):|"
    "while goes_on(state):|for i, p in enumerate(@):|for p, q in zip(@.unbind(), @.unbind()):|for p in (@, @):|for i in range(k if isinstance(k, int) else 1):|for i in range(@.shape[0]):|for p in parts(@):|for p in list(state.l):|for n, p in list(state.d.items()):|for p in sorted([@.sum().item(), 1.0]):|for i in reversed(range(2)):|for i in [0, k]:|for m in state.parts:|for p in state.net.parameters():|for p in map(torch.sin, [@, @]):|with torch.autograd.set_grad_enabled(False):|with torch.no_grad(), Counted(state):|with torch.autocast('cpu', dtype=torch.bfloat16, enabled=k > 1):|with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):|with torch.random.fork_rng():|with torch.enable_grad():"
).split("|")

AFTER = (
    "x = r[0]|state.t = r[0]|state.leaf.grad = None|state.leaf.data.mul_(2)|state.l = [make(2, 4), 5]|state.l.append(r[-1])|state.d['t'] = make(3, 4)|state.d['v'] = r[0]|state.a += 1|state.a[0] = 5|state.a = np.arange(5., dtype=np.float32)|state.net.weight.data.add_(1)|state.net.zero_grad()|state.net.train()|state.net.double()|state.rec.n = 4|state.rec.t = r[0]|state.rec = Record(make(2, 4), 2)|state.pair = Pair(r[-1], 3)|state.count = counting()|state.queue.append(make(1, 2))|state.generator.manual_seed(1)|state.shared.mul_(2)|state.shared = make(1, 4)|state.leaf.requires_grad_(False)|state.leaf = make(2, 4).requires_grad_()|state.average = None|state.extra = 1|Counted.made = 0|Record.extra = 1|memoized.cache_clear()|random.seed(1)|torch.set_grad_enabled(False)|torch.set_grad_enabled(True)|state.t.t_()|state.t.resize_(2)|state.log.clear()|G = 3|G = state.t|state.net.extra = 1|state.net.mean.add_(1)|state.net.forward = lambda p: p * 2|state.t = state.leaf|state.t = state.leaf[0]|state.d['t'] = state.t|state.l[0] = state.t|state.l[0].add_(1)|r[0][0] = 1|[t.add_(1) for t in r]|sum(t.sum() for t in r if t.requires_grad).backward(retain_graph=True)|torch.autograd.grad(r[0].sum(), x)|(r[0] * 2).sum().backward(); state.leaf.grad = None|(r[0].sum() * state.leaf.sum()).backward()|state.t.requires_grad_()|state.v.sum().backward()|state.log[-1].add_(1)|globals().update(averaged=lambda x, rate=1: x * rate)|globals().update(recursed=lambda x, n: x - n)|Record.__call__ = lambda self, x: x + self.n|state.parts[0].weight.data.add_(1)|state.parts[1] = torch.nn.Linear(4, 4)|remembered.__defaults__[0].clear()|state.fn = torch.cos"
).split("|")

AGAIN = "kept[0]|kept[-1]|kept[0].detach()|kept[0] * 1|state.t|state.leaf|state.l[0]|state.shared|state.net.mean|state.net.weight|x|x.detach()|x[:]|x.t()|x.view(-1)|x[0]|y|x.clone()|state.d['t']|state.t[0]|state.leaf * 1|state.leaf[0]|state.rec.t|torch.from_numpy(state.a)|torch.tensor(2.0)|torch.zeros(0)|k|2|2.5|None".split("|")
