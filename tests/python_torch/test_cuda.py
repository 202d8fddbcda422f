"""torch.compile(backend="ingot") and sessions with tensors on a GPU: streams, weights, state, precision, captured graphs."""

import threading
import unittest

import ingot
import ingot.torch
import torch
from helpers import TestCase, engines


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.second = torch.nn.Linear(128, 32)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)))


class Cache(torch.nn.Module):
    """Writes to a buffer as a cache does."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
        self.register_buffer("cache", torch.zeros(16, 64))

    def forward(self, x, at):
        self.cache.index_copy_(0, at, self.layer(x))
        return self.cache.sum(0)


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class Cuda(TestCase):
    def setUp(self):
        super().setUp()
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False

    def net(self, dtype=torch.float32):
        return Net().eval().to("cuda", dtype)

    def test_results_are_on_the_gpu(self):
        call = self.check(self.net(), torch.randn(8, 64, device="cuda"))
        with torch.no_grad():
            self.assertEqual(call(torch.randn(8, 64, device="cuda")).device, torch.device("cuda:0"))

    def test_convolutions(self):
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        )  # fmt: skip
        self.check(net.eval().cuda(), torch.randn(2, 3, 32, 32, device="cuda"), tolerance=1e-3)

    def test_half_precision_modules(self):
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype):
                self.check(self.net(dtype), torch.randn(8, 64, device="cuda", dtype=dtype))

    def test_half_precision_as_an_option(self):
        net, x = self.net(), torch.randn(8, 64, device="cuda")
        with torch.no_grad():
            self.assert_same(self.compiled(net, precision="fp16")(x), net(x), 5e-3)

    def test_dynamic_batch_builds_once(self):
        net = self.net()
        with torch.no_grad():
            call = self.compiled(net, dynamic=True)
            for n in (2, 7, 64, 3):
                x = torch.randn(n, 64, device="cuda")
                self.assert_same(call(x), net(x))

    def test_results_stay(self):
        net = self.net()
        with torch.no_grad():
            call = self.compiled(net)
            xs = [torch.randn(8, 64, device="cuda") for _ in range(20)]
            results = [call(x) for x in xs]
            for x, y in zip(xs, results):
                self.assert_same(y, net(x))

    def test_runs_in_order_of_the_current_stream(self):
        net, stream = self.net(), torch.cuda.Stream()
        with torch.no_grad():
            call = self.compiled(net)
            call(torch.zeros(512, 64, device="cuda"))
            for _ in range(20):
                with torch.cuda.stream(stream):
                    big = torch.randn(4096, 4096, device="cuda") @ torch.randn(4096, 4096, device="cuda")
                    x = big[:512, :64].contiguous()
                    y = call(x) * 2
                stream.synchronize()
                self.assert_same(y, net(x) * 2, 1e-3)

    def test_weights_that_change(self):
        net, x = self.net(), torch.randn(8, 64, device="cuda")
        with torch.no_grad():
            call = self.compiled(net)
            call(x)
            for p in net.parameters():
                p.mul_(0.5)
            self.assert_same(call(x), net(x))
            net.load_state_dict(self.net().state_dict())
            self.assert_same(call(x), net(x))

    def test_weights_stay_where_they_are(self):
        """Where layouts agree, an engine has no copy, sees what is written, and lets go of what is replaced."""
        layers = [layer for _ in range(8) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
        net = torch.nn.Sequential(*layers).eval().to("cuda", torch.float16)
        x, known = torch.randn(64, 512, device="cuda", dtype=torch.float16), engines()
        size = sum(p.numel() * p.element_size() for p in net.parameters())
        with torch.no_grad():
            call = self.compiled(net)
            self.assert_same(call(x), net(x))
            (engine,) = engines(known)
            if torch.cuda.get_device_capability() >= (9, 0):  # products of warp groups
                self.assertLess(engine.memory["owned_bytes"], 0.02 * size)
                self.assertGreater(engine.memory["borrowed_bytes"], 0.98 * size)
            for p in net.parameters():
                p.mul_(1.1)
            self.assert_same(call(x), net(x))
            net.load_state_dict({name: w * 0.9 for name, w in net.state_dict().items()}, assign=True)
            self.assert_same(call(x), net(x))
            for p in net.parameters():
                p.data = p.data + 0.01
            before = torch.cuda.memory_allocated()
            for _ in range(3):
                self.assert_same(call(x), net(x))
            self.assertLessEqual(torch.cuda.memory_allocated(), before)  # nothing of what was replaced is kept

    def test_weights_in_captured_graphs(self):
        """A graph goes on reading the memory that the weights had when it was captured."""
        net, x = self.net(torch.float16), torch.randn(64, 64, device="cuda", dtype=torch.float16)
        with torch.no_grad():
            call = self.compiled(net)
            call(x)
            expected, graph = net(x), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = call(x)
            net.load_state_dict(self.net(torch.float16).state_dict(), assign=True)
            self.assert_same(call(x), net(x))
            torch.cuda.empty_cache()
            graph.replay()
            self.assert_same(y, expected)

    def test_state_is_written_in_place(self):
        net = Cache().eval().cuda()
        other = Cache().eval().cuda()
        other.load_state_dict(net.state_dict())
        with torch.no_grad():
            call = self.compiled(net)
            at = net.cache.data_ptr()
            for i in range(16):
                x, where = torch.randn(1, 64, device="cuda"), torch.tensor([i], device="cuda")
                self.assert_same(call(x, where), other(x, where))
                self.assert_same(net.cache, other.cache)
            self.assertEqual(net.cache.data_ptr(), at)

    def test_threads_on_streams_of_their_own(self):
        net, wrong = self.net(), []
        with torch.no_grad():
            call = self.compiled(net)
            call(torch.zeros(8, 64, device="cuda"))

        def work(seed):
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                g = torch.Generator("cuda").manual_seed(seed)
                for _ in range(50):
                    x = torch.randn(8, 64, device="cuda", generator=g)
                    if not torch.allclose(call(x), net(x), rtol=1e-3, atol=1e-3):
                        wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_inside_the_callers_graph(self):
        net, x = self.net(), torch.randn(8, 64, device="cuda")
        with torch.no_grad():
            call = self.compiled(net)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    call(x)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = call(x * 2) + 1
            for _ in range(3):
                x.copy_(torch.randn(8, 64, device="cuda"))
                graph.replay()
                self.assert_same(y, net(x * 2) + 1)
            self.assert_same(call(x), net(x))

    def late(self, x):
        """x, at the end of some milliseconds of work on the current stream."""
        big = torch.randn(4096, 4096, device="cuda")
        for _ in range(8):
            big = big @ big * 1e-3
        return x + 0 * torch.nan_to_num(big[0, 0], 0, 0, 0)

    def test_results_are_asked_for_on_other_streams(self):
        """The GPU orders the streams, and the memory of results that go is used again behind those who read them."""
        net, reader = self.net(), torch.cuda.Stream()
        engine = ingot.torch.export(net, (torch.randn(8, 64, device="cuda"),), target="cuda")
        own = torch.cuda.Stream()
        sessions = engine.session(stream=own), engine.session()
        xs = [torch.randn(8, 64, device="cuda") for _ in range(6)]
        torch.cuda.synchronize()
        with torch.no_grad():
            for session in sessions:
                session(ingot.as_tensor(xs[0]))
                for x in xs:
                    with torch.cuda.stream(own):
                        given = ingot.as_tensor(self.late(x))
                        y = session(given)  # an ingot.Tensor, like its input: PyTorch asks for it by __dlpack__
                    with torch.cuda.stream(reader):
                        read = [torch.from_dlpack(y) * 1, self.late(torch.from_dlpack(y))]
                    del y
                    other = ingot.as_tensor(xs[0])
                    with torch.cuda.stream(own):
                        session(other)  # takes the memory, but not before it has been read
                    torch.cuda.synchronize()
                    for found in read:
                        self.assert_same(found, net(x))

    def test_results_of_a_session_on_its_own_stream(self):
        """They become PyTorch's tensors while another stream is current: work there sees them."""
        net = self.net()
        engine = ingot.torch.export(net, (torch.randn(8, 64, device="cuda"),), target="cuda")
        own = torch.cuda.Stream()
        session = engine.session(stream=own)
        with torch.no_grad():
            for _ in range(10):
                x = torch.randn(8, 64, device="cuda")
                own.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(own):
                    given = self.late(x)
                y = session(given) * 2
                self.assert_same(y, net(x) * 2)

    def test_exported_engine(self):
        net = self.net()
        engine = ingot.torch.export(net, (torch.randn(8, 64, device="cuda"),), target="cuda")
        x = torch.randn(8, 64, device="cuda")
        with torch.no_grad():
            y = engine(x)
            self.assertEqual(y.device.type, "cuda")
            self.assert_same(y, net(x))
            session = engine.session()
            out = torch.empty(8, 32, device="cuda")
            session.bind([x], [out])
            session.run_bound()
            torch.cuda.synchronize()
            self.assert_same(out, net(x))


if __name__ == "__main__":
    unittest.main()
