"""What is called in place of a graph: engines and single ATen operators, in order."""

import ctypes
import functools
import threading

import ingot
import sympy

import torch
from ingot._ingot import _Watch

from . import artifacts, dims
from .importer import Importer, attribute_of, inverse, is_tensor, memory_order, value_of
from .plan import is_check, is_size


# What changes before each of so many calls is no weight but state, written elsewhere: it becomes an input. Until then each
# change is a refit, which takes a small part of the time that building takes.
_MOST_CHANGES = 32


@functools.cache
def _addresses():
    """What lets _Watch read tensors quickly: addresses of functions in PyTorch's library, 0 for what it does not have."""
    data = getattr(torch._C._dynamo.guards, "_torchinductor_pyobject_tensor_data_ptr", 0)
    try:
        version = ctypes.CDLL(torch._C.__file__)._ZNK2at10TensorBase8_versionEv
    except (OSError, AttributeError):
        return data, 0
    return data, ctypes.cast(version, ctypes.c_void_p).value


def _watch(places):
    return _Watch(places, torch.Tensor._version, *_addresses())


class Engine:
    """A part of a graph, compiled: takes and gives tensors by their nodes."""

    def __init__(self, module, nodes, weights, needed, updates, options, contents=None):
        """
        weights: node -> (name, tensor); needed: the nodes whose results are read outside; updates: placeholder -> the node
        whose result is written to its memory.
        """
        self.outputs = list(needed)
        importer = Importer(module)
        for node in nodes:
            for source in node.all_input_nodes:
                _take(importer, source, weights, set(nodes))
        for node in nodes:
            importer.add_node(node)
        self.arguments = [
            (a, None if isinstance(a, str) else _unless_sorted(memory_order(value_of(a)))) for a in importer.arguments
        ]
        self.orders = []
        for node in self.outputs:
            importer.add_output(node.name, importer.values[node], value_of(node))
            order = memory_order(value_of(node))
            self.orders.append(None if order == sorted(order) else inverse(order))
        self.weights = [n for n in weights if n in importer.values]
        self.updated = list(updates)
        for node, value in updates.items():
            name = f"{node.name} (new)"
            importer.network.update(name, importer.values[node].raw, importer.values[value].raw)
        options = dict(options)
        session = {"threads": options.pop("threads", 0), "device": options.get("device", 0)}
        model = importer.network.finish()
        if self.weights:
            options["strip_weights"] = True
        self.engine = (contents or artifacts).build(model, **options)
        self.on_gpu = self.engine.target.startswith("cuda")
        self.addresses = {}  # name -> the memory that the engine was given: the weight's, or that of a dense copy
        self.in_place = set()  # names of weights of which the engine has nothing but their memory's address
        self.memory = {"borrowed_bytes": 0, "owned_bytes": 0}  # of the engine's weights
        self.refit(weights, self.weights)
        self.gpu = session["device"]
        self.run = self.engine.session(**session)
        self.in_graphs = []  # sessions whose run is part of a caller's CUDA graph, which uses their memory

    def __call__(self, slots, symbols):
        args = []
        for argument, order in self.arguments:
            if isinstance(argument, str):
                args.append(torch.tensor(symbols[argument]))
            else:
                x = slots[argument]
                args.append((x if order is None else x.permute(order)).contiguous())
        run = self.run
        if self.on_gpu and _is_captured(self.gpu):
            run = self.engine.session(device=self.gpu)
            self.in_graphs.append(run)
        results = run(*args)
        self._copy_back(args, slots)
        results = results if isinstance(results, (tuple, list)) else (results,)
        for node, order, y in zip(self.outputs, self.orders, results):
            y = y if isinstance(y, torch.Tensor) else torch.from_dlpack(y)
            if y.dtype == torch.uint8 and value_of(node).dtype == torch.bool:
                y = y.view(torch.bool)
            y = y.to(value_of(node).device)  # an engine without arguments leaves its results on the host
            slots[node] = y if order is None else y.permute(order)

    def is_stale(self, node, weight):
        """Whether the engine has to be given a weight that is another tensor now, or was written to."""
        name, tensor = weight
        return node in self.weights and not (name in self.in_place and self.addresses[name] == tensor.data_ptr())

    def refit(self, weights, changed):
        """
        Lends the engine weights: it reads them where they are, or makes something of them. weights: as for __init__, with new
        tensors; changed: the nodes of these.
        """
        stale = [n for n in changed if self.is_stale(n, weights[n])]
        if not stale:
            return
        try:
            info = self._lend(weights, stale, partial=True)
        except ingot.InvalidArgument:  # combined with one that is not given
            info = self._lend(weights, self.weights)
        self.memory = {kind: info[kind] for kind in self.memory}
        self.in_place = {x.name for x in self.engine.initializers if x.is_borrowed}

    def _lend(self, weights, nodes, partial=False):
        tensors = {weights[n][0]: _lent(weights[n][1], self.on_gpu) for n in nodes}
        for device in {tensor.device for tensor in tensors.values() if tensor.is_cuda}:
            torch.cuda.synchronize(device)  # what writes them has ended
        info = self.engine.refit(tensors, partial=partial, ignore_unknown=True, borrow=True)
        self.addresses.update((name, tensor.data_ptr()) for name, tensor in tensors.items())  # of a copy, another one's
        return info

    def _copy_back(self, args, slots):
        """Where what is updated did not lie densely in memory, and a copy was given."""
        for node in self.updated:
            given = next(x for (a, _), x in zip(self.arguments, args) if a is node)
            if given is not slots[node]:
                slots[node].copy_(given)


def _take(importer, node, weights, inside):
    if node in inside or node in importer.values or node.op == "get_attr" or not is_tensor(value_of(node)):
        return
    if node in weights:
        name, tensor = weights[node]
        importer.values[node] = importer.add_weight(name, tensor, memory_order(tensor))
    else:
        importer.add_input(node)


def _lent(tensor, to_gpu):
    """A weight as an engine takes it: its own memory if it is dense in any order of axes, and where kernels can read it."""
    tensor = tensor.detach()
    if not to_gpu:
        tensor = tensor.cpu()
    return tensor.permute(memory_order(tensor)).contiguous()


def _is_captured(gpu):
    """Whether the caller captures that GPU's current stream into a CUDA graph."""
    if gpu == torch.cuda.current_device():
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(gpu):
        return torch.cuda.is_current_stream_capturing()


def _unless_sorted(order):
    return None if order == sorted(order) else order


class Program:
    """Calls a planned graph with its placeholders' values. Calls from several threads follow each other."""

    def __init__(self, plan, weights, options, contents=None):
        """contents: what builds the engines (saving.Contents), where these are saved."""
        self.plan, self.module = plan, plan.module
        self.options = options
        self.placeholders = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        self.output = next(n for n in self.module.graph.nodes if n.op == "output")
        self.lock = threading.Lock()
        self.symbol_sources = self._find_symbols()
        written = {n.args[0] for n in plan.epilogue}
        self.weights = {n: w for n, w in weights.items() if n not in written}
        self.changes = {}  # node -> (how often it was another in calls that followed each other, the number of the last one)
        self.calls, self.contents = 0, contents
        self._build()
        self.contents = None

    def _build(self):
        self.steps = []
        parts = self.plan.parts
        for node in sorted(self.plan.level, key=self.plan.level.get):
            if self.plan.level[node] % 2:
                self.steps.append(node)
            elif nodes := parts.pop(self.plan.part_of(node), None):
                self._add_engine(nodes)
        written = {n for step in self.steps if isinstance(step, Engine) for n in step.updated}
        self.steps += self.plan.views + self.plan.checks + [n for n in self.plan.epilogue if n.args[0] not in written]
        self._list_arguments()

    def _list_arguments(self):
        """Which of a call's arguments are looked at, and which are weights that nothing but engines reads."""
        outside = [n for n in self.steps if not isinstance(n, Engine)] + [self.output]
        read = {source for node in outside for source in node.all_input_nodes}
        read.update(node for node, _ in self.symbol_sources.values())
        self.given = [(i, n) for i, n in enumerate(self.placeholders) if n in read or n not in self.weights]
        self.watch = _watch([i for i, n in enumerate(self.placeholders) if n in self.weights])
        self.watch.accept([self.weights[n][1] if n in self.weights else None for n in self.placeholders])

    def _add_engine(self, nodes):
        inside, views = set(nodes), set(self.plan.views)
        needed = [n for n in nodes if n not in views and is_tensor(value_of(n)) and self._is_read(n, inside, views)]
        updates = self._updates(inside, views)
        needed = [n for n in needed if n not in updates.values()]
        if needed or updates:
            gpu = self.plan.place[nodes[0]]
            given = self.options if gpu is None else {"target": "cuda", "device": gpu, **self.options}
            self.steps.append(Engine(self.module, nodes, self.weights, needed, updates, given, self.contents))

    def _updates(self, inside, views):
        """placeholder -> node of an engine: what the engine can write in place of a copy at the end."""
        updates = {}
        for copy in self.plan.epilogue:
            state, value = copy.args[:2]
            given, new = value_of(state), value_of(value)
            alike = given.dtype == new.dtype and given.device == new.device and dims.shape(given) == dims.shape(new)
            fits = alike and given.is_contiguous()
            alone = all(u in inside or u is copy for n in (state, value) for u in n.users)
            if fits and alone and value in inside and value not in views and state.op == "placeholder":
                updates[state] = value
        return updates

    @staticmethod
    def _is_read(node, inside, views):
        """Whether anything but the node's own engine reads its result."""
        return any(u in views or (u not in inside and not is_size(u) and not is_check(u)) for u in node.users)

    # ---- Symbols

    def _find_symbols(self):
        """symbol's name -> (placeholder, axis or None) where a call shows its value."""
        sources = {}
        for node in self.placeholders:
            val = value_of(node)
            if isinstance(val, torch.SymInt) and val.node.expr.is_Symbol:
                sources.setdefault(val.node.expr.name, (node, None))
        for node in self.placeholders:
            val = value_of(node)
            for axis, size in enumerate(val.shape if is_tensor(val) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    sources.setdefault(size.node.expr.name, (node, axis))
        return sources

    def _symbols(self, slots):
        return {
            name: slots[node] if axis is None else slots[node].shape[axis]
            for name, (node, axis) in self.symbol_sources.items()
        }

    @staticmethod
    def _learn(val, result, symbols):
        """Sizes that only a result tells."""
        if isinstance(val, torch.SymInt):
            if val.node.expr.is_Symbol:
                symbols.setdefault(val.node.expr.name, int(result))
        elif is_tensor(val) and result is not None:
            for size, real in zip(val.shape, result.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    symbols.setdefault(size.node.expr.name, real)
        elif isinstance(val, (list, tuple)):
            for v, r in zip(val, result):
                Program._learn(v, r, symbols)

    # ---- Calls

    def __call__(self, args):
        """args: a list, which is emptied."""
        with self.lock:
            self.calls += 1
            changed = self.watch.changed(args)
            if changed:
                self._refresh(args, [self.placeholders[i] for i in changed])
            given, steps = self.given, self.steps
        slots = {node: args[i] for i, node in given}
        args.clear()
        symbols = self._symbols(slots)
        for step in steps:
            if isinstance(step, Engine):
                with self.lock:
                    step(slots, symbols)
            else:
                a, k = self._resolve(step.args, slots, symbols), self._resolve(step.kwargs, slots, symbols)
                slots[step] = step.target(*a, **k)
                self._learn(value_of(step), slots[step], symbols)
        return self._resolve(self.output.args[0], slots, symbols)

    def _refresh(self, args, changed):
        """Gives engines the weights that are other tensors now, or were written to."""
        current = dict(zip(self.placeholders, args))
        for node in changed:
            self.weights[node] = (self.weights[node][0], current[node])
        engines = [step for step in self.steps if isinstance(step, Engine)]
        changed = [n for n in changed if any(engine.is_stale(n, self.weights[n]) for engine in engines)]
        if self._make_inputs(changed):
            self._build()
            return
        try:
            self.watch.accept(args)  # first: what another thread writes meanwhile, the next call sees
            for engine in engines:
                engine.refit(self.weights, changed)
        except ingot.Error:  # a value that decided something when the engine was built
            self._build()

    def _make_inputs(self, changed):
        """Makes inputs of the weights that change with every call. Whether there are any."""
        often = []
        for node in changed:
            count, call = self.changes.get(node, (0, 0))
            count = count + 1 if call == self.calls - 1 else 1
            self.changes[node] = (count, self.calls)
            if count == _MOST_CHANGES:
                often.append(node)
        for node in often:
            del self.weights[node]
        return bool(often)

    def _resolve(self, a, slots, symbols):
        if isinstance(a, torch.fx.Node):
            if a in slots:
                return slots[a]
            if a.op == "get_attr":
                return attribute_of(self.module, a.target)
            return self._evaluate(value_of(a), symbols)
        if isinstance(a, (list, tuple)):
            return type(a)(self._resolve(x, slots, symbols) for x in a)
        if isinstance(a, dict):
            return {k: self._resolve(x, slots, symbols) for k, x in a.items()}
        if isinstance(a, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self._evaluate(a, symbols)
        return a

    @staticmethod
    def _evaluate(val, symbols):
        if not isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return val
        expr = val.node.expr
        known = {s: sympy.Integer(symbols[s.name]) for s in expr.free_symbols}
        number = expr.xreplace(known)
        if isinstance(val, torch.SymBool):
            return bool(number)
        return int(number) if isinstance(val, torch.SymInt) else float(number)
