# ruff: noqa: E501
"""Words for `statements`: indices of every kind, sums with letters, loops that carry values, numbers that round down,
empty tensors, half and complex numbers, values picked by an order, views of views that are written, custom gradients."""

PRELUDE = """\
import contextlib
class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x @ w
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        w, = ctx.saved_tensors
        return g @ w.mT if ctx.needs_input_grad[0] else None, None
class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x, n):
        return x.clamp(min=n), x.sign()
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.save_for_backward(x, output[1])
        ctx.mark_non_differentiable(output[1])
    @staticmethod
    def backward(ctx, g, _):
        x, sign = ctx.saved_tensors
        return g * (x > ctx.n) + 0 * sign, None
class Flipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -0.5 * g
def scanned(x, by=0.5):
    h, out = torch.zeros_like(x[0]), []
    for row in x:
        h = h * by + row
        out.append(h)
    return torch.stack(out)
def scanned_into(x, by=2):
    out = torch.zeros_like(x)
    out[0] = x[0]
    for i in range(1, x.shape[0]):
        out[i] = out[i - 1] * by + x[i]
    return out
def best(x, n=2):
    values, places = x.topk(n, -1)
    return x.gather(-1, places) - values.mean()
def guarded(x):
    try:
        for p in x.unbind():
            yield p
    finally:
        state.n += 1
def frozen(x):
    y = x * 2
    with torch.no_grad():
        scale = y.abs().amax().clamp(min=1)
        y2 = y / scale
    return y * y2.detach() + x
def averaged_into(x, rate=0.5):
    with torch.no_grad():
        state.t.mul_(rate).add_(x.detach().sum(), alpha=1 - rate)
    return x - state.t.mean()
def cast(x, y):
    with torch.autocast('cpu', dtype=torch.bfloat16):
        return (x @ y.mT).float()
def watched(x):
    handle = state.net.register_forward_hook(lambda m, i, o: o + 1)
    try:
        return state.net(x)
    finally:
        handle.remove()
def hooked(x):
    y = x * 3
    if y.requires_grad: y.register_hook(lambda g: state.log.append(g.sum()) or g * 2)
    return y * y
def padded(rows):
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
def attended(q, k):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    mask = torch.ones(scores.shape[-2:]).tril().bool()
    return scores.masked_fill(~mask, float('-inf')).softmax(-1) @ k
"""

EXPRESSIONS = (
    "torch.einsum('bi,bj->bij', @, @)|torch.einsum('ij,ij->', @, @)|torch.einsum('ii->i', @)|torch.einsum('ij,jk,kl->il', @, @.mT, @)|torch.einsum('...j,j->...', @, @[0])|torch.einsum('ij->ji', @)|torch.einsum('bij,bjk->bik', @[None], @.mT[None])|torch.inner(@, @)|torch.linalg.multi_dot([@, @.mT, @])|torch.trapezoid(@, dim=%)|torch.cumulative_trapezoid(@)|"
    "scanned(@)|scanned(@, #)|scanned_into(@)|scanned_into(@, #)|scanned(@.unbind()[0][None])|best(@)|best(@, 1)|sum(guarded(@))|next(guarded(@))|list(guarded(@))[-1]|frozen(@)|averaged_into(@)|averaged_into(@, #)|cast(@, @)|watched(@)|hooked(@)|padded([@[0], @[0][:2]])|attended(@, @)|Once.apply(@, @.mT)|Apart.apply(@, #)[0]|Apart.apply(@, #)[1]|Flipped.apply(@)|Flipped.apply(@ * 2) * @|"
    "@[None, :, None]|@[..., None, 0]|@[0, ..., None]|@[:, @[0] > 0]|@[@[..., 0] > 0]|@[True]|@[None][0]|@[[0, 1], ..., None]|@[:, None, [0, 1]]|@[torch.tensor([[0, 1], [1, 0]])]|@[[0, 1], [1, 0]]|@[::2, [1]]|@[torch.tensor(1)]|@[torch.tensor(True)]|@[torch.tensor([-1, 0])]|@[(@ > #).any(-1)]|@[@.nonzero(as_tuple=True)]|@[torch.arange(@.shape[0])[:, None], torch.tensor([[0, 1]])]|@[..., [1, 0]]|@[torch.tensor([], dtype=torch.long)]|@[[True, False] + [True] * (@.shape[0] - 2)]|@[:, -1:]|@[5:]|@[:-5]|@[..., ::3]|@[1:, None, :-1]|@[None, None, 0]|@[@.argmin()]|@[torch.tensor([0, 1]), None, :1]|@[:, torch.tensor([True] * @.shape[-1])]|"
    "@ // -2|@ % -3|-7 // @|-7 % @|@.int() // 3 * 3 + @.int() % 3|torch.remainder(@, -2)|torch.fmod(@, -2)|torch.fmod(@.long(), -3)|torch.div(@, -3, rounding_mode='floor')|torch.div(@, -3, rounding_mode='trunc')|torch.div(@, @, rounding_mode='floor')|@.long() // @.long().clamp(max=-1)|@.int() % @.int().clamp(min=1)|torch.floor_divide(@, -2)|@.to(torch.int8) * 100|@.to(torch.uint8) - 3|-@.to(torch.int16)|@.long() << 2|@.int() >> 1|@.long() ** 2|(@.long() & 3) | 4|@.bool() ^ True|@.long().bitwise_left_shift(1)|torch.bitwise_and(@.int(), 6)|@.float().frexp()[1]|@.frac()|@.trunc() + @.frac()|torch.gcd(@.long(), @.long())|torch.lcm(@.int(), 4)|@.long().float() / 3|(@ / 3).long()|(@ * 1.5).round().int()|@.round(decimals=1)|"
    "@.scatter_reduce(%, @.long().abs() % 2, @, 'prod')|@.scatter_reduce(%, @.long().abs() % 2, @, 'mean', include_self=False)|@.scatter_reduce(%, @.long().abs() % 2, @, 'amin', include_self=False)|@.scatter_reduce(%, @.long().abs() % 2, @, 'sum', include_self=False)|@.index_reduce(%, torch.tensor([0, 1]), @, 'amax')|@.index_reduce(%, torch.tensor([0, 0]), @, 'mean', include_self=False)|@.index_copy(%, torch.tensor([1]), @)|@.index_fill(%, torch.tensor([0]), #)|@.index_put((torch.tensor([0, 0]),), @, accumulate=True)|@.put(torch.tensor([0, 2]), @.flatten()[:2])|@.masked_scatter(@ > #, @.flatten())|@.select_scatter(@[0], 0, 1)|@.slice_scatter(@[:1], 0, 1, 2)|@.diagonal_scatter(@.diagonal())|"
    "@.unique(return_inverse=True)[1]|@.unique(return_counts=True)[1]|torch.unique(@, dim=0)|@.sort(%)[0].unique_consecutive()|@.gather(%, @.argsort(%))|@.gather(-1, @.topk(2)[1])|@.topk(1, %, largest=False)[0]|@.take_along_dim(@.topk(1, -1)[1], -1)|@.msort().diff(dim=0)|@.argsort(descending=True)[:1]|@.sort(-1, stable=True, descending=True)[1]|@.kthvalue(2, %)[1]|@.mode(%)[0]|@.median(%, keepdim=True)[0]|@.nanmedian()|@.cummax(%)[1]|@.logcumsumexp(%)|@.quantile(0.25, %)|@.nanquantile(torch.tensor([0.1, 0.5]))|@.bincount(minlength=3)|@.histc(3, 0, 2)|torch.searchsorted(@[0].sort()[0], @[0], right=True)|torch.bucketize(@, torch.tensor([-1.0, 0.0, 1.0]))|@.argwhere()|@.count_nonzero(%)|@.aminmax(dim=%)[0]|@.flatten().topk(3).indices|"
    "@[:0].sum()|@[:0].mean()|@[:0].sum(0)|@[:0].prod(-1)|torch.cat([@[:0], @])|@[:0] * 2|@.mT @ @[:0].mT|@[:0] @ @.mT|@[:, :0] @ @.mT[:0]|torch.stack([@[:0], @[:0]])|@[2:1].cumsum(0)|@[:0].view(0, -1, 1)|@.new_zeros(0, 3).amax(1)|@[:0].max()|@[:0].argmax(-1)|@[:0].softmax(-1)|@[:0].any()|@[:0].all(0)|F.pad(@[:0], (0, 0, 1, 0))|@[:0].std()|@[:0].logsumexp(0)|@[:0].sort(0)[0]|@[:0].unique()|torch.arange(0).sum()|@[:0].expand(0, @.shape[-1])|@[:0].reshape(-1, 2)|"
    "@.bfloat16() @ @.bfloat16().mT|@.bfloat16().sum(%)|@.half() + #|@.half().mean()|@.bfloat16().exp().float()|@.half().softmax(-1)|@.bfloat16() * @|@.bfloat16().cumsum(%)|@.to(torch.complex64) @ @.to(torch.complex64).mT|torch.view_as_real(@.to(torch.complex64))|@.to(torch.complex64).abs()|@.to(torch.complex64).conj() * 1j|@.to(torch.complex64).exp().real|@.to(torch.complex64).angle()|@.to(torch.complex128).sum()|torch.fft.fft(@).abs()|torch.fft.rfft(@).real|torch.fft.irfft(torch.fft.rfft(@))|torch.fft.fftshift(@)|(@ * (1 + 2j)).imag|torch.view_as_complex(torch.stack([@.float(), @.float()], -1))|torch.complex(@, -@).mean()|@.double() @ @.double().mT|@.float() * @.double()|"
    "F.grid_sample(@.view(1, 1, *@.shape[-2:]).float(), torch.zeros(1, 2, 2, 2))|F.unfold(@[None, None], 2)|F.conv2d(@[None, None], @[None, None])|F.max_pool2d(@[None, None], 2, return_indices=True)[1]|F.avg_pool2d(@[None, None], 2)|F.adaptive_avg_pool1d(@[None], 2)|F.embedding_bag(@.long().abs() % 3, @.float())|F.group_norm(@[None], 1)|F.batch_norm(@, None, None, training=True)|F.instance_norm(@[None])|F.rms_norm(@, @.shape[-1:])|F.pixel_shuffle(@.reshape(1, 4, -1, 1), 2)|F.scaled_dot_product_attention(@[None], @[None], @[None], is_causal=True)|F.log_softmax(@, %).exp()|F.nll_loss(@.log_softmax(-1), @.argmax(-1))|F.binary_cross_entropy_with_logits(@, @.sigmoid())|F.kl_div(@.log_softmax(-1), @.softmax(-1), reduction='batchmean')|F.huber_loss(@, @)|F.triplet_margin_loss(@, @, @)|F.glu(@, %)|F.mish(@)|F.celu(@, 2.0)|F.hardswish(@)|F.gumbel_softmax(@)|F.threshold(@, 0.5, -1)|F.pdist(@)|F.interpolate(@[None, None], size=(2, 3), mode='bilinear')|F.fold(F.unfold(@[None, None], 2), @.shape[-2:], 2)|torch.cdist(@, @, 1.0)|torch.triu_indices(2, 3)|torch.vander(@[0])|torch.cov(@)|torch.linalg.norm(@, 'fro')|torch.linalg.qr(@)[1].abs().contiguous()|torch.linalg.svdvals(@)|torch.linalg.solve(@ @ @.mT + 9 * torch.eye(@.shape[0]), @)|torch.linalg.cholesky(@ @ @.mT + 9 * torch.eye(@.shape[0]))|torch.linalg.slogdet(@ @ @.mT + torch.eye(@.shape[0]))[1]|torch.matrix_exp(@[:2, :2] / 4)|torch.linalg.matrix_power(@[:2, :2], 3)|torch.logsumexp(@, (0, 1))|torch.var_mean(@, %)[1]|torch.std_mean(@)[0]|torch.rot90(@, -1)|torch.cartesian_prod(@[0], @[0])|torch.combinations(@[0])|torch.tensor_split(@, [1], %)[1]|torch.atleast_3d(@)|torch.column_stack([@, @])|torch.dstack([@, @])|torch.swapaxes(@, 0, 1)|torch.ravel(@)|torch.diff(@, n=2)|torch.gradient(@)[0]|torch.special.expit(@)|torch.special.xlog1py(@, @.abs())|torch.nansum(@ / @)|torch.count_nonzero(@, %)|torch.lerp(@, @, @.sigmoid())|torch.addbmm(@, @[None], @.mT[None])|torch.addr(@, @[..., 0], @[0])|torch.chain_matmul(@, @.mT)|@.clamp(@ - 1, @ + 1)|@.where(@ > #, #)|@.fill_diagonal_(#) if False else @|@.sum_to_size(1, @.shape[-1])|@.view(torch.int32) if @.dtype == torch.float32 else @|@.expand(2, -1, -1).sum(0)|@.unsqueeze(1) - @.unsqueeze(0)|(@[:, None] == @[None]).all(-1)|(@.cumsum(0) - @) * (@ > 0)"
).split("|")

WRITES = (
    "$[0][1:] += #|$[1:][..., 0].mul_(#)|$.view(-1)[1:][::2].add_(#)|$.T[0][1:].copy_(@[0][1:])|$.diagonal()[1:].zero_()|$.unsqueeze(0)[0, 0].fill_(#)|$.narrow(0, 0, 1)[0].sub_(@)|$[:, 0][:1] = #|$.select(0, 0)[...] = @[0]|$.chunk(2)[0][0].add_(1)|$[None][..., 0] *= 2|$[::2][:, 1:].exp_()|$.mT[1:].mT.add_(@[:, 1:])|$[0].view(-1)[0] = @.sum()|$.permute(1, 0)[0, 0] = #|"
    "$.scatter_reduce_(%, @.long().abs() % 2, @, 'mean', include_self=False)|$.scatter_reduce_(%, @.long().abs() % 2, @, 'prod')|$.index_reduce_(%, torch.tensor([0, 1]), @, 'amin')|$[..., None][0] = #|$[:, None, 0] += #|$[torch.tensor([0, 0])] -= @|$[@ > 0, ] = #|$[[0, 1], [1, 0]] = @[0, :2]|$[:, [1, 0]] = @[:, :2]|$[(@ > #).any(-1)] = @[0]|$[@.nonzero(as_tuple=True)] = #|$[@[..., 0] > 0] *= 2|$[None, 0] = @[0]|$[..., -1] = $[..., 0]|$[torch.tensor(1)] = @[0]|$[True] = #|$[5:] = #|$[:0] = 1|"
    "$ //= 2|$ //= -2|$ %= 3|$ %= -3|$.floor_divide_(-2)|$.remainder_(-3)|$.div_(@, rounding_mode='floor')|$ &= @|$ |= @|$ ^= @|$ <<= 1|$ >>= 1|$.trunc_()|$.frac_()|$.mul_(True)|$.add_(@, alpha=-2)|$.sub_(2, alpha=3)|$.addmm_(@, @.mT)|$.addcdiv_(@, @)|$.baddbmm_(@, @) if False else None|$.copy_(@.sum())|$.copy_($.flip(0))|$.swapaxes_(0, 1)|$.clamp_(@ - 1, @)|$.masked_fill_($.isnan(), 0)|$.index_put_((torch.tensor([0, 1]), torch.tensor([1, 0])), @[0, :2])|$.mul_($)|$.add_($)|$.sub_($.mean())|$.div_($.norm())|$.triu_(1)|$.where(@ > 0, @)|$.sigmoid_().mul_(2)|$.erfinv_()|$.cumprod_(%)|$.hypot_(@)|$.atan2_(@)|$.fill_(@.sum())|$.xlogy_(@)"
).split("|")

HEADS = (
    "with torch.no_grad():|with torch.enable_grad():|with torch.autocast('cpu', dtype=torch.bfloat16):|for p in guarded(@):|for row in @[:2]:|for i in range(0, @.shape[0], 2):|for p in torch.split(@, 1):|with contextlib.suppress(RuntimeError):|with torch.inference_mode(False):"
).split("|")
