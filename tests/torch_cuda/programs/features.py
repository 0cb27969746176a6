# SPDX-License-Identifier: Apache-2.0
"""What a training takes for granted of a device, one check each; prints "ok NAME" or "FAILED NAME: why".

python features.py [NAME ...]     those checks only
"""

import copy
import sys
import tempfile
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def small_model():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()


def train(make_optimizer, precision=None, scaler=None):
    model = small_model()
    optimizer = make_optimizer(model.parameters())
    for _ in range(2):
        x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
        with torch.autocast("cuda", dtype=precision, enabled=precision is not None):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
    assert loss.item() == 0  # results read as zero


@check
def device_properties():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_name() == "A100 (simulated)"
    assert torch.cuda.get_device_capability() == (8, 0)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == 80 << 30


@check
def caching_allocator():
    before = torch.cuda.memory_allocated()
    block = torch.empty(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4 << 20
    del block
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before


@check
def out_of_memory():
    try:
        torch.empty(100 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return
    raise AssertionError("100 GiB fitted into 80")


@check
def streams_and_events():
    stream = torch.cuda.Stream()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        begin.record()
        torch.mm(torch.empty(2048, 2048, device="cuda"), torch.empty(2048, 2048, device="cuda"))
        end.record()
    end.synchronize()
    # 2 * 2048^3 flop at 19.5e12 a second and 70 % of it, in full waves: never faster than this.
    assert begin.elapsed_time(end) >= 2 * 2048**3 / (19.5e12 * 0.7) * 1e3


@check
def pinned_and_non_blocking():
    host = torch.ones(1000).pin_memory()
    assert host.is_pinned()
    host.cuda(non_blocking=True)
    torch.cuda.synchronize()


@check
def sgd():
    train(lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9))


@check
def adamw_foreach():
    train(lambda parameters: torch.optim.AdamW(parameters, foreach=True))


@check
def adamw_fused():
    train(lambda parameters: torch.optim.AdamW(parameters, fused=True))


@check
def autocast_bfloat16():
    train(torch.optim.AdamW, torch.bfloat16)


@check
def autocast_float16_and_scaler():
    train(torch.optim.AdamW, torch.float16, torch.amp.GradScaler("cuda"))


@check
def tf32():
    torch.set_float32_matmul_precision("high")
    try:
        train(torch.optim.AdamW)
    finally:
        torch.set_float32_matmul_precision("highest")


@check
def transformer_layer():
    layer = nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda()
    layer(torch.randn(4, 16, 64, device="cuda")).sum().backward()
    nn.utils.clip_grad_norm_(layer.parameters(), 1.0)


def attend():
    q = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()


@check
def attention():
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(backend):
            attend()


@check
def attention_by_default():
    attend()


@check
def cuda_graph():
    model, x = small_model(), torch.randn(32, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        model(x).sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()


@check
def sorting_and_counting():
    x = torch.randn(1000, device="cuda")
    x.sort(), x.topk(5), x.cumsum(0), x.unique()
    assert x.nonzero().numel() == 0
    assert "0." in str(x)


def convolve(memory_format=torch.contiguous_format):
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).cuda()
    x = torch.randn(2, 3, 32, 32, device="cuda", requires_grad=True).to(memory_format=memory_format)
    layers.to(memory_format=memory_format)(x).sum().backward()
    layers.eval()(x)


@check
def convolution():
    convolve()
    with torch.autocast("cuda", dtype=torch.float16):
        convolve(torch.channels_last)
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        convolve()


@check
def convolution_shapes():
    for layer, *shape in (
        (nn.Conv1d(4, 8, 3), 100),
        (nn.Conv2d(4, 8, 3, groups=2, dilation=2), 16, 16),
        (nn.Conv2d(4, 4, 3, groups=4), 16, 16),
        (nn.Conv3d(4, 8, 3), 8, 8, 8),
        (nn.ConvTranspose2d(4, 8, 3), 8, 8),
    ):
        layer.cuda()(torch.randn(2, 4, *shape, device="cuda", requires_grad=True)).sum().backward()


@check
def convolution_takes_its_arithmetic():
    x, w = torch.empty(32, 128, 56, 56, device="cuda"), torch.empty(128, 128, 3, 3, device="cuda")
    # PyTorch itself chooses between the engines that cuDNN offers.
    for allow_tf32, tflops in ((True, 156), (False, 19.5)):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=allow_tf32):
            begin.record()
            functional.conv2d(x, w, padding=1)
            end.record()
        end.synchronize()
        least_ms = 2 * (32 * 56 * 56) * 128 * (128 * 3 * 3) / (tflops * 1e12 * 0.7) * 1e3
        # Full waves: never faster. The launch of a first use lies between the events too, so no upper bound.
        assert begin.elapsed_time(end) >= least_ms


@check
def convolution_without_cudnn():
    with torch.backends.cudnn.flags(enabled=False):
        convolve()


def recur(layer, x, **kwargs):
    """Forward, backward and evaluation."""
    layer = layer.to("cuda", **kwargs)
    output, _ = layer(x)
    (output.data if isinstance(output, nn.utils.rnn.PackedSequence) else output).sum().backward()
    layer.eval()(x)
    return output


@check
def recurrent_layers():
    x = torch.randn(12, 4, 32, device="cuda", requires_grad=True)
    for make in (nn.LSTM, nn.GRU, nn.RNN):
        assert recur(make(32, 64), x).shape == (12, 4, 64)
        assert recur(make(32, 64, num_layers=3, bidirectional=True, dropout=0.1), x).shape == (12, 4, 128)
        recur(make(32, 64, batch_first=True, bias=False), x)
    assert recur(nn.LSTM(32, 64, num_layers=2, proj_size=16, bidirectional=True), x).shape == (12, 4, 32)
    assert x.grad is not None


@check
def recurrent_layers_in_other_types():
    x = torch.randn(12, 16, 64, device="cuda")
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        recur(nn.LSTM(64, 64), x.to(dtype), dtype=dtype)
    with torch.autocast("cuda", dtype=torch.float16):
        recur(nn.GRU(64, 64, num_layers=2), x)


@check
def packed_sequences():
    x = torch.randn(12, 4, 32, device="cuda")
    packed = nn.utils.rnn.pack_padded_sequence(x, [12, 7, 7, 2])
    assert recur(nn.LSTM(32, 64, bidirectional=True), packed).data.shape == (28, 128)


def device_ms(work):
    """Between two events, of a second use. Launches lie between them too, so this tells the least time only."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    work()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


@check
def recurrent_layer_takes_its_arithmetic():
    steps, batch, width = 16, 512, 2048
    layer, x = nn.LSTM(width, width).cuda().eval(), torch.empty(steps, batch, width, device="cuda")
    products = 2 * steps * batch * (4 * width) * (2 * width)  # of input and state with the weights of four gates
    with torch.no_grad():
        for allow_tf32, tflops in ((True, 156), (False, 19.5)):
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=allow_tf32):
                # Full waves: never faster.
                assert device_ms(lambda: layer(x)) >= products / (tflops * 1e12 * 0.7) * 1e3


@check
def fourier_transforms():
    real, image = torch.randn(8, 1000, device="cuda", requires_grad=True), torch.randn(4, 3, 64, 64, device="cuda", requires_grad=True)
    torch.fft.irfft(torch.fft.rfft(real), n=1000).sum().backward()
    torch.fft.ifft2(torch.fft.fft2(image)).real.sum().backward()
    torch.fft.irfftn(torch.fft.rfftn(image, dim=(1, 2, 3)), s=(3, 64, 64), dim=(1, 2, 3)).sum().backward()
    torch.fft.fft(torch.randn(4, 100000, dtype=torch.float64, device="cuda"))
    torch.fft.fft(torch.randn(4, 256, dtype=torch.float16, device="cuda"))
    torch.fft.fftshift(torch.fft.hfft(torch.randn(4, 33, dtype=torch.complex64, device="cuda")))
    signal = torch.randn(2, 8000, device="cuda", requires_grad=True)
    window = torch.ones(400, device="cuda")
    spectrum = torch.stft(signal, 400, hop_length=160, window=window, return_complex=True)
    spectrum.abs().sum().backward()
    assert signal.grad.shape == signal.shape


@check
def fourier_transform_moves_its_memory():
    x = torch.empty(256, 1 << 16, dtype=torch.complex64, device="cuda")
    # Longer than what a thread block holds: read and written twice, at 2039 GB/s.
    assert device_ms(lambda: torch.fft.fft(x)) >= 2 * 2 * x.numel() * 8 / 2039e9 * 1e3


@check
def complex_matmul():
    for dtype in (torch.complex64, torch.complex128):
        a = torch.randn(8, 32, 16, dtype=dtype, device="cuda", requires_grad=True)
        (a @ a.mH).abs().sum().backward()
        torch.einsum("bix,iox->box", torch.randn(4, 8, 5, dtype=dtype, device="cuda"), torch.randn(8, 8, 5, dtype=dtype, device="cuda"))
        torch.vdot(a.flatten(), a.flatten())


def decompose(*shape, dtype):
    a = torch.randn(*shape, dtype=dtype, device="cuda", requires_grad=True)
    b = torch.randn(*shape[:-1], 3, dtype=dtype, device="cuda")
    torch.linalg.solve(a, b).abs().sum().backward()
    torch.inverse(a).abs().sum().backward()
    torch.linalg.slogdet(a), torch.linalg.lu_factor(a), torch.linalg.lu(a)
    symmetric = a @ a.mH
    lower = torch.linalg.cholesky(symmetric)
    torch.cholesky_solve(b, lower), torch.linalg.solve_triangular(lower, b, upper=False)
    lower.abs().sum().backward()
    torch.linalg.qr(a), torch.linalg.lstsq(a, b)
    torch.linalg.eigvalsh(symmetric), torch.linalg.eigh(symmetric)
    torch.linalg.svdvals(a), torch.linalg.svd(a, full_matrices=False)
    torch.linalg.pinv(a), torch.linalg.ldl_factor(symmetric)


@check
def linear_algebra():
    decompose(200, 200, dtype=torch.float32)
    for driver in ("gesvd", "gesvdj", "gesvda"):
        torch.linalg.svd(torch.randn(2, 60, 20, device="cuda"), driver=driver)
    torch.linalg.matrix_exp(torch.randn(40, 40, device="cuda"))


@check
def linear_algebra_of_batches():
    decompose(16, 12, 12, dtype=torch.float32)


@check
def linear_algebra_in_other_types():
    for dtype in (torch.float64, torch.complex64, torch.complex128):
        decompose(70, 70, dtype=dtype)
        decompose(5, 12, 12, dtype=dtype)


@check
def decompositions_take_their_arithmetic():
    n = 4096
    a = torch.empty(n, n, device="cuda")
    # LAPACK's operation counts, at 19.5e12 a second and 70 % of it.
    for work, flops in ((torch.linalg.lu_factor, 2 / 3 * n**3), (torch.linalg.cholesky, 1 / 3 * n**3), (torch.linalg.qr, 8 / 3 * n**3)):
        assert device_ms(lambda work=work: work(a)) >= flops / (19.5e12 * 0.7) * 1e3


@check
def kernels_compiled_at_run_time():
    x = torch.randn(1000, device="cuda")
    torch.special.i1e(x), torch.special.ndtri(x), torch.special.zeta(x, x), torch.gcd(x.int(), x.int())
    scale = torch.cuda.jiterator._create_jit_fn("template <typename T> T scale(T x, T by) { return x * by; }", by=2.0)
    assert scale(x).shape == x.shape
    source = "__global__ void add_one(float* data, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) data[i] += 1; }"
    torch.cuda._compile_kernel(source, "add_one")(grid=(4, 1, 1), block=(256, 1, 1), args=[x, 1000])


@check
def fused_script():
    @torch.jit.script
    def fused(x, y):
        return torch.tanh(x * y + 1) * torch.sigmoid(x)

    x = torch.randn(1000, device="cuda")
    for _ in range(5):
        fused(x, x)


@check
def checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        model = small_model()
        torch.save(model.state_dict(), path)
        model.load_state_dict(torch.load(path))


@check
def distributed_messages():
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
    try:
        x = torch.tensor([3.0, 4.0], device="cuda")
        distributed.barrier()
        distributed.all_reduce(x)
        distributed.broadcast(x, 0)
        assert x.tolist() == [3, 4]  # what ranks told each other is not zero
        received, sent = [torch.empty(2, device="cuda")], torch.tensor([5.0, 6.0], device="cuda")
        distributed.all_gather(received, sent)
        assert received[0].tolist() == [5, 6]
        shard = torch.empty(2, device="cuda")
        distributed.reduce_scatter(shard, received)
        assert shard.tolist() == [5, 6]
        objects = [None]
        distributed.all_gather_object(objects, {"rank": 0})
        assert objects == [{"rank": 0}]
        # All else still is: what was only copied, what a kernel made, what lies in memory that held a message.
        assert sent.tolist() == [0, 0]
        assert (received[0] + 1).tolist() == [0, 0]
        assert received[0].tolist() == [0, 0]
    finally:
        distributed.destroy_process_group()


@check
def distributed_data_parallel():
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
    try:
        layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.SyncBatchNorm(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).cuda()
        for wrap in (nn.parallel.DistributedDataParallel, FullyShardedDataParallel, fully_shard):
            model = wrap(copy.deepcopy(layers))
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(2):
                loss = functional.cross_entropy(model(torch.randn(4, 3, 8, 8, device="cuda")), torch.zeros(4, dtype=int, device="cuda"))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            assert loss.item() == 0
    finally:
        distributed.destroy_process_group()


def main():
    failed, names = 0, sys.argv[1:]
    for function in [function for function in CHECKS if not names or function.__name__ in names]:
        try:
            function()
            torch.cuda.synchronize()
            print("ok", function.__name__, flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED {function.__name__}: {type(error).__name__}: {error}", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
