"""torch.compile(backend="ingot") and sessions with tensors on a GPU: streams, weights, state, precision, captured graphs."""

import threading
import unittest
import warnings

import ingot
import ingot.torch
import torch
from helpers import TestCase, engines
from ingot.torch.plan import make_plan
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


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

    def test_exported_recurrence(self):
        """The FakeTensors of its states, which nobody reads, are wrong in PyTorch 2.11."""

        class Last(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = torch.nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)

            def forward(self, x):
                return self.rnn(x)[0]

        net, x = Last().eval().cuda(), torch.randn(2, 5, 8, device="cuda")
        with torch.no_grad():
            engine = ingot.torch.export(net, (x,), target="cuda")
            self.assert_same(engine(x), net(x), tolerance=1e-3)


class Places(TestCase):
    """Plans of graphs whose tensors are on several GPUs; no GPU is needed."""

    def plan(self, function, *devices):
        with FakeTensorMode():
            tensors = [torch.empty(4, 4, device=device) for device in devices]
            return make_plan(make_fx(function)(*tensors), 1)

    def parts(self, plan):
        return {place: [str(n.target).split(".")[1] for n in nodes] for (_, place), nodes in plan.parts.items()}

    def test_an_engine_is_on_one_gpu(self):
        def call(x, y, z):
            hidden = torch.relu(x @ y)
            return torch.tanh(hidden.to("cuda:1") @ z), (hidden + 1).cpu().exp() * 2

        plan = self.plan(call, "cuda:0", "cuda:0", "cuda:1")
        self.assertEqual(self.parts(plan), {0: ["mm", "relu", "add"], 1: ["mm", "tanh"], None: ["exp", "mul"]})
        reasons = [(x.operator, x.reason) for x in plan.outside]
        self.assertEqual(
            reasons,
            [
                ("aten._to_copy.default", "tensors on cuda:0 and cuda:1"),
                ("aten._to_copy.default", "tensors on cuda:0 and the host"),
            ],
        )

    def test_two_networks_in_one_graph(self):
        plan = self.plan(lambda x, y: (torch.exp(x) * 2, torch.sin(y) + 1), "cuda:0", "cuda:1")
        self.assertEqual(self.parts(plan), {0: ["exp", "mul"], 1: ["sin", "add"]})
        self.assertEqual(plan.outside, [])

    def test_one_gpu_takes_what_is_on_the_host(self):
        plan = self.plan(lambda x, y: torch.exp(x.to("cuda:1")) * y, "cpu", "cuda:1")
        self.assertEqual(self.parts(plan), {1: ["_to_copy", "exp", "mul"]})


class Halves(torch.nn.Module):
    """One half on either GPU."""

    def __init__(self):
        super().__init__()
        self.first = Net().to("cuda:0")
        self.second = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to("cuda:1")

    def forward(self, x):
        y = self.first(x)
        return self.second(torch.relu(y).to("cuda:1")), torch.exp(-y) + 1


GPUS = ("cuda:0", "cuda:1")


@unittest.skipUnless(torch.cuda.is_available() and torch.cuda.device_count() > 1, "needs two GPUs")
class TwoGpus(TestCase):
    def setUp(self):
        super().setUp()
        torch.backends.cuda.matmul.allow_tf32 = False

    def nets(self, dtype=torch.float32):
        return [Net().eval().to(gpu, dtype) for gpu in GPUS]

    def test_modules_on_both(self):
        for dtype in (torch.float32, torch.float16):
            nets = self.nets(dtype)
            with torch.no_grad():
                calls = [self.compiled(net) for net in nets]
                for n in (8, 8, 3, 8):
                    for net, call, gpu in zip(nets, calls, GPUS):
                        x = torch.randn(n, 64, device=gpu, dtype=dtype)
                        y = call(x)
                        self.assertEqual(y.device, torch.device(gpu))
                        self.assert_same(y, net(x))

    def test_either_may_be_current(self):
        nets = self.nets()
        with torch.no_grad():
            calls = [self.compiled(net) for net in nets]
            for current in (1, 0, 1):
                with torch.cuda.device(current):
                    for net, call, gpu in zip(nets, calls, GPUS):
                        x = torch.randn(8, 64, device=gpu)
                        self.assert_same(call(x), net(x))
                    self.assertEqual(torch.cuda.current_device(), current)

    def test_one_module_that_moves(self):
        net = Net().eval()
        with torch.no_grad():
            call = self.compiled(net)
            for gpu in (*GPUS, *GPUS):
                net.to(gpu)
                x = torch.randn(8, 64, device=gpu)
                self.assert_same(call(x), net(x))

    def test_a_module_of_two_halves(self):
        net, known = Halves().eval(), engines()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ingot.torch.FallbackWarning)  # the copy between the GPUs is PyTorch's
            call = self.compiled(net, strict=False)
            for _ in range(3):
                x = torch.randn(8, 64, device="cuda:0")
                self.assert_same(call(x), net(x))
            self.assertEqual(sorted(engine.gpu for engine in engines(known)), [0, 1])
            for p in net.parameters():
                p.mul_(0.5)
            self.assert_same(call(x), net(x))

    def test_weights_stay_where_they_are(self):
        for gpu in GPUS:
            layers = [layer for _ in range(4) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
            net, known = torch.nn.Sequential(*layers).eval().to(gpu, torch.float16), engines()
            x = torch.randn(64, 512, device=gpu, dtype=torch.float16)
            size = sum(p.numel() * p.element_size() for p in net.parameters())
            with torch.no_grad():
                call = self.compiled(net)
                self.assert_same(call(x), net(x))
                (engine,) = engines(known)
                if torch.cuda.get_device_capability(gpu) >= (9, 0):
                    self.assertGreater(engine.memory["borrowed_bytes"], 0.98 * size)
                net.load_state_dict({name: w * 0.9 for name, w in net.state_dict().items()}, assign=True)
                self.assert_same(call(x), net(x))

    def test_state_in_place(self):
        for gpu in GPUS:
            net, other = Cache().eval().to(gpu), Cache().eval().to(gpu)
            other.load_state_dict(net.state_dict())
            with torch.no_grad():
                call = self.compiled(net)
                for i in range(4):
                    x, where = torch.randn(1, 64, device=gpu), torch.tensor([i], device=gpu)
                    self.assert_same(call(x, where), other(x, where))
                    self.assert_same(net.cache, other.cache)

    def test_threads(self):
        nets, wrong = self.nets(), []
        with torch.no_grad():
            calls = [self.compiled(net) for net in nets]
            for call, gpu in zip(calls, GPUS):
                call(torch.zeros(8, 64, device=gpu))

        def work(i):
            gpu = GPUS[i % 2]
            with torch.no_grad(), torch.cuda.device(gpu), torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(50):
                    x = torch.randn(8, 64, device=gpu)
                    if not torch.allclose(calls[i % 2](x), nets[i % 2](x), rtol=1e-3, atol=1e-3):
                        wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_streams_of_the_second(self):
        net = Net().eval().to("cuda:1")
        with torch.no_grad():
            call = self.compiled(net)
            call(torch.zeros(512, 64, device="cuda:1"))
            stream = torch.cuda.Stream("cuda:1")
            for _ in range(10):
                with torch.cuda.stream(stream):  # makes cuda:1 current, too
                    big = torch.randn(4096, 4096, device="cuda:1") @ torch.randn(4096, 4096, device="cuda:1")
                    x = big[:512, :64].contiguous()
                    y = call(x) * 2
                stream.synchronize()
                self.assert_same(y, net(x) * 2, 1e-3)

    def test_captured_graphs(self):
        for gpu in GPUS:
            net, x = Net().eval().to(gpu), torch.randn(8, 64, device=gpu)
            with torch.no_grad(), torch.cuda.device(gpu):
                call = self.compiled(net)
                call(x)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=torch.cuda.Stream(gpu)):
                    y = call(x * 2) + 1
                for _ in range(3):
                    x.copy_(torch.randn(8, 64, device=gpu))
                    graph.replay()
                    self.assert_same(y, net(x * 2) + 1)

    def test_exported_engines(self):
        """One engine, loaded once, on both; and calls of it where the tensors are."""
        net = Net().eval()
        engine = ingot.torch.export(net, (torch.randn(8, 64),), target="cuda")
        engine = ingot.load(engine.tobytes())
        sessions = [engine.session(device=i) for i in range(2)]
        xs = [torch.randn(8, 64, device=gpu) for gpu in GPUS]
        with torch.no_grad():
            for _ in range(3):
                for i, (session, x) in enumerate(zip(sessions, xs)):
                    for y in (session(x), engine(x)):
                        self.assertEqual(y.device, torch.device(GPUS[i]))
                        self.assert_same(y.cpu(), net(x.cpu()))
        with self.assertRaisesRegex(ingot.InvalidArgument, "on GPU 0, the session on GPU 1"):
            sessions[1](xs[0])


if __name__ == "__main__":
    unittest.main()
