"""Which parameters join, how, and what else a script may do with its model: `guest` rules."""

import copy
import gc
import io
import mmap
import os
import pickle
import struct
import unittest
import warnings
import zipfile

import torch
from torch import nn
from torch.nn import functional

import grapevine
from grapevine import blobs
from grapevine.front import Front, views_of
from grapevine.layout import layout_of
from networks import (IMAGES, alone_is_bare, equal, join_when_free, network, sgd, train,
                      values)
from node import Node


def adam(model):
    return torch.optim.Adam(model.parameters(), 1e-2)


class Tied(nn.Module):
    """An embedding that is the head's weight too, and a layer that is not trained."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.middle = nn.Linear(8, 8)
        self.frozen = nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.frozen.requires_grad_(False)

    def forward(self, words):
        return self.head(self.frozen(self.middle(self.embedding(words))))


class Scaled(nn.Module):
    """A parameter without a dimension, another behind it."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))
        self.layer = nn.Linear(8, 4)

    def forward(self, inputs):
        return self.factor * self.layer(inputs)


class Memory(nn.Module):
    """Buffers: one that is made anew in each pass, one that no file has, one of whole numbers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)
        self.register_buffer("count", torch.tensor(0))

    def forward(self, inputs):
        self.mean = 0.5 * self.mean + 0.5 * inputs.mean(0)
        return self.layer(inputs)


def shared_storage():
    """Two Parameters on one memory."""
    model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    model[1].weight.data = model[0].weight.data
    return model


class WhatJoins(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.close)
        torch.manual_seed(0)

    def join(self, model, optimizer, **options):
        rank = grapevine.join(model, optimizer, self.node.path, **options)
        self.addCleanup(rank.close)
        return rank

    def refused(self, words, model, optimizer):
        with self.assertRaises(ValueError) as caught:
            grapevine.join(model, optimizer, "/nowhere")
        self.assertRegex(str(caught.exception), words)
        self.assertNotIn("\n", str(caught.exception))

    def test_groups_in_another_order_a_frozen_layer_and_tied_weights(self):
        model = Tied()
        groups = [
            {"params": [model.middle.bias], "weight_decay": 0},
            {"params": [model.embedding.weight, model.middle.weight], "lr": 1e-2},
        ]
        optimizer = torch.optim.AdamW(groups, lr=1e-3)
        rank = self.join(model, optimizer)
        self.assertEqual(rank.names, ["embedding.weight", "middle.weight", "middle.bias"])
        self.assertIs(model.head.weight, model.embedding.weight)
        optimizer.zero_grad()
        model(torch.randint(11, (4, 5))).sum().backward()
        optimizer.step()
        state = rank.mean_state_dict()
        self.assertEqual(set(state), set(model.state_dict()))
        self.assertTrue(torch.equal(state["head.weight"], state["embedding.weight"]))
        Tied().load_state_dict(state)

    def test_adapters_join_alone_where_the_rest_is_frozen(self):
        base = nn.Linear(16, 16).requires_grad_(False)
        model = nn.ModuleDict({"base": base, "a": nn.Linear(16, 2), "b": nn.Linear(2, 16)})
        adapters = [*model["a"].parameters(), *model["b"].parameters()]
        rank = self.join(model, torch.optim.AdamW(adapters, 1e-3))
        self.assertEqual(rank.names, ["a.weight", "a.bias", "b.weight", "b.bias"])
        self.assertEqual(set(rank.mean_state_dict()), set(model.state_dict()))

    def test_two_parameters_on_one_memory_stay_tied(self):
        model = shared_storage()
        bare = copy.deepcopy(model)
        bare[1].weight.data = bare[0].weight.data
        inputs = torch.randn(3, 4)
        rank = self.join(model, optimizer := sgd(model))
        for one, by in ((model, optimizer), (bare, sgd(bare))):
            for _ in range(3):
                by.zero_grad()
                one[1](one[0](inputs)).sum().backward()
                by.step()
        self.assertEqual(model[0].weight.data_ptr(), model[1].weight.data_ptr())
        self.assertTrue(equal(values(model), values(bare)))
        state = rank.mean_state_dict()
        self.assertTrue(torch.equal(state["0.weight"], model[0].weight))
        self.assertTrue(torch.equal(state["1.weight"], model[0].weight))
        with rank.mean() as mean:
            self.assertEqual(mean[0].weight.data_ptr(), mean[1].weight.data_ptr())
        rank.close()
        self.assertEqual(model[0].weight.data_ptr(), model[1].weight.data_ptr())

    def test_parameters_that_come_apart_are_refused_at_the_next_STEP(self):
        model = shared_storage()
        rank = self.join(model, sgd(model))
        model[1].weight.data = model[1].weight.data.clone()
        model[0].weight.data = model[0].weight.data.clone()
        with self.assertRaisesRegex(ValueError, "0.weight is no longer tied"):
            rank.step()

    def test_buffers_that_the_model_makes_anew_are_averaged_and_others_stay_its_own(self):
        with Node(2) as node:
            models = [Memory(), Memory()]
            optimizers = [sgd(model) for model in models]
            pairs = zip(models, optimizers)
            ranks = [grapevine.join(model, by, node.path) for model, by in pairs]
            for _ in range(3):
                optimizers[0].zero_grad()
                models[0](torch.randn(8, 2)).sum().backward()
                optimizers[0].step()
            ranks[1].step()
            state = ranks[0].mean_state_dict()
            self.assertEqual(set(state), set(models[0].state_dict()))
            self.assertTrue(torch.allclose(state["mean"], models[0].mean / 2))
            self.assertGreater(state["mean"].abs().max().item(), 0)
            models[0].count += 1
            self.assertEqual(state["count"], 0)  # what is not joined is a copy, too
            text = layout_of(models[0], optimizers[:1]).text("").decode()
            aside = [line for line in text.splitlines() if line.startswith("aside")]
            self.assertEqual(aside, ["aside mean 2"])
            for rank in ranks:
                rank.close()

    def test_buffers_without_memory_for_each_element_stay_the_models_own(self):
        strange = {
            "sparse": torch.eye(2).to_sparse(),
            "expanded": torch.ones(1).expand(3),
            "meta": torch.empty(2, device="meta"),
            "nested": torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)]),
        }
        model = nn.Linear(4, 2)
        for name, buffer in strange.items():
            model.register_buffer(name, buffer)
        with Node() as node, grapevine.join(model, None, node.path) as rank:
            rank.step()
            mean = rank.finish()
        for name, buffer in strange.items():
            self.assertEqual((mean[name].layout, mean[name].device), (buffer.layout, buffer.device))
        self.assertTrue(torch.equal(mean["sparse"].to_dense(), torch.eye(2)))
        self.assertTrue(torch.equal(mean["expanded"], torch.ones(3)))

    def test_a_script_that_takes_a_rank_over_keeps_its_own_buffers(self):
        first, second = network(), network()
        self.join(first, sgd(first)).close()
        second[1].running_mean.fill_(3)
        rank = self.join(second, sgd(second))
        self.assertTrue(torch.equal(second[0].weight, first[0].weight))
        self.assertEqual(second[1].running_mean.tolist(), [3.0] * 8)
        self.assertEqual(rank.mean_state_dict()["1.running_mean"].shape, (8,))

    def test_a_submodule_whose_name_ends_in_module_keeps_its_name(self):
        model = nn.ModuleDict({"submodule": nn.Linear(2, 2), "module": nn.Linear(2, 2)})
        names = self.join(model, sgd(model)).names
        self.assertEqual(names[0], "submodule.weight")
        self.assertEqual(names[2], "module.weight")

    def test_names_of_wrappers_are_cut_off(self):
        model = nn.ModuleDict({"module": nn.ModuleDict({"_orig_mod": nn.Linear(2, 2)})})
        self.assertEqual(self.join(model, sgd(model)).names, ["weight", "bias"])

    def test_parameters_and_buffers_are_views_one_storage_a_tensor(self):
        model = network()
        rank = self.join(model, optimizer := sgd(model))
        addresses = [t.data_ptr() for t in (*model.parameters(), *model.buffers())]
        train(model, optimizer, 3)
        after = [t.data_ptr() for t in (*model.parameters(), *model.buffers())]
        self.assertEqual(after, addresses)
        flat = sum(t.numel() for t in model.parameters()) * 4
        self.assertEqual(model[1].running_mean.data_ptr() - model[0].weight.data_ptr(), flat)
        state = rank.mean_state_dict()
        self.assertTrue(torch.equal(state["1.running_var"], model[1].running_var))
        self.assertEqual(state["1.num_batches_tracked"], 3)
        self.assertNotEqual(state["0.weight"].data_ptr(), model[0].weight.data_ptr())

    def test_a_model_of_low_precision_joins_by_copies_and_the_rank_keeps_fp32(self):
        for low in (torch.bfloat16, torch.float16):
            with self.subTest(dtype=low):
                torch.manual_seed(0)
                model = nn.Linear(50, 10).to(low)
                bare = copy.deepcopy(model)
                optimizers = [torch.optim.SGD(one.parameters(), 1e-2) for one in (model, bare)]
                with Node() as node:
                    rank = grapevine.join(model, optimizers[0], node.path)
                    generator = torch.Generator().manual_seed(1)
                    for _ in range(20):
                        inputs = torch.randn(8, 50, generator=generator).to(low)
                        for one, optimizer in zip((model, bare), optimizers):
                            optimizer.zero_grad()
                            one(inputs).square().mean().backward()
                            optimizer.step()
                        self.assertTrue(equal(values(model), values(bare)))
                    self.assertEqual(rank.mean_state_dict()["weight"].dtype, low)
                    self.assertEqual(rank.steps, 20)
                    rank.close()

    def test_what_rounding_hides_of_gossip_is_not_given_back(self):
        roundings = ((torch.bfloat16, 1.001, 2.0**-7), (torch.float16, 1.0001, 2.0**-10))
        for low, hidden, step in roundings:
            with self.subTest(dtype=low):
                model = nn.Linear(4, 2, bias=False).to(low)
                layout = layout_of(model, [])
                memory = os.memfd_create("front")
                os.pwrite(memory, struct.pack("<8f", *[hidden] * 8), 0)
                front = Front(layout, memory)
                front.take_over(False)
                self.assertEqual(model.weight.flatten().tolist(), [1.0] * 8)
                with torch.no_grad():
                    model.weight.add_(step)
                front.collect()
                given = struct.unpack("<8f", os.pread(memory, 32, 0))
                for number in given:
                    self.assertAlmostEqual(number, hidden + step, places=6)
                front.release()

    def test_channels_last_by_copy_gives_the_bits_of_the_bare_loop(self):
        def make():
            layers = [nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(4608, 10)]
            return nn.Sequential(*layers).to(memory_format=torch.channels_last)

        same, steps = alone_is_bare(make, sgd, train)
        self.assertTrue(same)
        self.assertEqual(steps, 8)

    def test_other_layers_give_the_bits_of_the_bare_loop(self):
        inputs = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(1))

        def run(model, optimizer):
            losses = []
            for _ in range(4):
                optimizer.zero_grad()
                out = model(inputs)
                loss = (out[0] if isinstance(out, tuple) else out).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses

        norms = nn.utils.parametrizations
        for make in (
            lambda: nn.LSTM(8, 16),
            lambda: norms.weight_norm(nn.Linear(8, 4)),
            lambda: norms.spectral_norm(nn.Linear(8, 4)),
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2),
            lambda: nn.Sequential(nn.Linear(8, 8), nn.PReLU()),
            lambda: nn.Sequential(nn.Linear(8, 0), nn.Linear(0, 4)),
            Scaled,
        ):
            with self.subTest(model=str(make()).split("(")[0]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertTrue(alone_is_bare(make, adam, run)[0])

    def test_what_cannot_join_is_refused_in_one_line(self):
        double = nn.Linear(3, 3).double()
        self.refused("weight is float64, accepted: float32", double, sgd(double))
        complex_ = nn.Linear(3, 3).to(torch.complex64)
        self.refused("weight is complex64", complex_, sgd(complex_))
        model, other = nn.Linear(2, 2), nn.Linear(2, 2)
        self.refused("2 of the optimizer's parameters are not the model's", model, sgd(other))
        lazy = nn.LazyLinear(3)
        self.refused("no shape yet", lazy, sgd(lazy))
        empty = nn.Linear(3, 3, device="meta")
        self.refused("weight has no memory of its own", empty, sgd(empty))
        frozen = nn.Linear(2, 2).requires_grad_(False)
        self.refused("nothing to train", frozen, None)
        named = nn.ModuleDict({"a b": nn.Linear(2, 2)})
        self.refused("white space", named, sgd(named))
        flat = torch.zeros(10)
        overlapping = nn.ParameterList([flat[:6], flat[4:]])
        self.refused("share a part of their memory", overlapping, sgd(overlapping))
        itself = nn.ParameterList([flat[:4].view(1, 4).expand(4, 4)])
        self.refused("0 has elements that share their memory", itself, sgd(itself))
        for parts in ([flat[:6], flat[:3]], [flat.view(2, 5)[:, :1], flat.view(2, 5)[:, 3:4]]):
            overlapping = nn.ParameterList(parts)
            self.refused("share a part of their memory", overlapping, sgd(overlapping))
        with self.assertRaisesRegex(ValueError, "every is 0"):
            grapevine.join(model, sgd(model), "/nowhere", every=0)

    def test_sharded_models_are_refused_in_one_line(self):
        import torch.distributed as distributed
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.tensor import distribute_tensor

        self.addCleanup(distributed.destroy_process_group)
        distributed.init_process_group(
            "gloo", rank=0, world_size=1, init_method=f"file://{self.node.folder}/group"
        )
        from torch.distributed.device_mesh import init_device_mesh

        model = nn.Linear(4, 4)
        mesh = init_device_mesh("cpu", (1,))
        model.weight = nn.Parameter(distribute_tensor(model.weight.data, mesh))
        self.refused("weight is sharded", model, sgd(model))
        wrapped = FullyShardedDataParallel(
            nn.Linear(4, 4), device_id=torch.device("cpu"), use_orig_params=True
        )
        self.refused("sharded by FSDP", wrapped, sgd(wrapped))
        zero = nn.Linear(4, 4)
        zero.weight.ds_id = 0
        self.refused("weight is sharded", zero, sgd(zero))


class WhatAScriptMayDo(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.close)
        torch.manual_seed(0)
        self.model = network()
        self.optimizer = sgd(self.model)
        self.rank = grapevine.join(self.model, self.optimizer, self.node.path)
        self.addCleanup(self.rank.close)
        self.weight = self.model[0].weight
        self.address = self.weight.data_ptr()

    def test_a_group_added_later_is_refused_at_the_next_STEP(self):
        self.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        with self.assertRaisesRegex(ValueError, "join again"):
            train(self.model, self.optimizer, 1)

    def test_another_parameter_in_a_group_is_refused_at_the_next_STEP(self):
        self.optimizer.param_groups[0]["params"][0] = nn.Parameter(torch.zeros(8, 1, 3, 3))
        with self.assertRaisesRegex(ValueError, "join again"):
            self.rank.step()

    def test_load_state_dict_copies_into_the_views(self):
        self.model.load_state_dict(network().state_dict())
        train(self.model, self.optimizer, 1)
        self.assertEqual(self.weight.data_ptr(), self.address)

    def test_load_state_dict_with_assign_is_refused_at_the_next_STEP(self):
        self.model.load_state_dict(copy.deepcopy(network().state_dict()), assign=True)
        with self.assertRaisesRegex(ValueError, "assign=True"):
            train(self.model, self.optimizer, 1)

    def test_a_layer_put_in_place_of_a_joined_one_is_refused(self):
        self.model[4] = nn.Linear(8 * 26 * 26, 10)
        for ask in (self.rank.step, self.rank.mean_state_dict, self.rank.finish):
            with self.assertRaisesRegex(ValueError, "are other objects .*a layer replaced"):
                ask()

    def test_a_wrapper_around_a_joined_layer_changes_nothing(self):
        self.model[4] = nn.Sequential(self.model[4])
        train(self.model, self.optimizer, 1)
        self.assertTrue(torch.equal(self.rank.finish()["4.0.weight"], self.model[4][0].weight))

    def test_replaced_memory_is_taken_over_and_the_view_put_back(self):
        self.weight.data = self.weight.data * 2
        wanted = self.weight.detach().clone()
        self.assertNotEqual(self.weight.data_ptr(), self.address)
        self.rank.step()
        self.assertEqual(self.weight.data_ptr(), self.address)
        self.assertTrue(torch.equal(self.weight, wanted))
        self.assertTrue(torch.equal(self.rank.mean_state_dict()["0.weight"], wanted))

    def test_a_parameter_of_another_type_is_refused_at_the_next_STEP(self):
        self.weight.data = self.weight.data.double()
        with self.assertRaisesRegex(ValueError, "0.weight has changed"):
            self.rank.step()

    def test_copies_and_files_of_the_model_are_those_of_any_model(self):
        self.model.to(torch.float32)
        self.assertEqual(self.weight.data_ptr(), self.address)
        other = copy.deepcopy(self.model)
        self.assertNotEqual(other[0].weight.data_ptr(), self.address)
        average = torch.optim.swa_utils.AveragedModel(self.model)
        average.update_parameters(self.model)
        self.assertNotEqual(next(average.parameters()).data_ptr(), self.address)
        size = sum(t.numel() * t.element_size() for t in self.model.state_dict().values())
        self.assertLess(len(pickle.dumps(self.model)), 2 * size)
        file = io.BytesIO()
        torch.save(self.model.state_dict(), file)
        file.seek(0)
        for name, value in torch.load(file, weights_only=True).items():
            self.assertTrue(torch.equal(value, self.model.state_dict()[name]))
        one = io.BytesIO()
        torch.save(self.model[4].bias, one)
        self.assertLess(len(one.getvalue()), 4096)

    def test_safetensors_writes_and_reads_the_views(self):
        try:
            import safetensors.torch as files
        except ImportError:
            self.skipTest("safetensors cannot be imported")
        path = self.node.folder + "/model.safetensors"
        files.save_file(self.model.state_dict(), path)
        for name, value in files.load_file(path).items():
            self.assertTrue(torch.equal(value, self.model.state_dict()[name]))
        files.save_model(self.model, path)
        files.load_model(self.model, path)
        self.assertEqual(self.weight.data_ptr(), self.address)

    def test_what_is_not_finite_stays_out_of_the_rank_and_names_it(self):
        with torch.no_grad():
            self.weight[0, 0, 0, 0] = float("nan")
        with self.assertRaisesRegex(FloatingPointError, "rank 0"):
            self.rank.step()
        for value in self.rank.mean_state_dict().values():
            self.assertTrue(torch.isfinite(value).all())

    def test_the_model_is_the_mean_for_a_while_and_then_itself_again(self):
        before = values(self.model)
        with self.rank.mean() as mean:
            self.assertIs(mean, self.model)
            self.assertNotEqual(self.weight.data_ptr(), self.address)
            self.assertTrue(torch.isfinite(mean(IMAGES)).all())
            with self.assertRaisesRegex(RuntimeError, "no step"):
                self.optimizer.step()
            with self.assertRaisesRegex(RuntimeError, "no step"):
                self.rank.step()
        self.assertEqual(self.weight.data_ptr(), self.address)
        self.assertTrue(equal(before[:-3], values(self.model)[:-3]))

    def test_what_is_kept_comes_back_with_its_step(self):
        self.assertIsNone(self.rank.kept())
        train(self.model, self.optimizer, 3)
        self.assertTrue(self.rank.keep({"optimizer": self.optimizer.state_dict(), "epoch": 7}))
        train(self.model, self.optimizer, 2)
        self.rank.close()
        model = network()
        optimizer = sgd(model)
        with grapevine.join(model, optimizer, self.node.path) as rank:
            self.assertEqual(rank.steps, 5)
            self.assertTrue(equal(values(model)[:6], values(self.model)[:6]))
            kept = rank.kept()
            self.assertEqual(rank.kept_steps, 3)
            self.assertEqual(kept["epoch"], 7)
            optimizer.load_state_dict(kept["optimizer"])
            train(model, optimizer, 1)

    def test_what_could_not_be_read_again_is_refused_and_what_was_kept_before_stays(self):
        self.rank.keep({"step": 1})
        refused = {
            "a Random": __import__("random").Random(1),
            "a SGD, accepted: its state_dict": self.optimizer,
            "a Sequential, accepted: its state_dict": self.model,
            "it has a pathlib": {"path": __import__("pathlib").Path("/x")},
            "it has a networks.train": train,
            "cannot be written": lambda: None,
            "Unsupported operand": {"product": 2**5000},
        }
        for words, what in refused.items():
            with self.subTest(words=words), self.assertRaises(ValueError) as caught:
                self.rank.keep(what)
            self.assertNotIn("\n", str(caught.exception))
            if not words.startswith("a Random"):
                self.assertIn(words, str(caught.exception))
            self.assertEqual(self.rank.kept(), {"step": 1})
        self.assertTrue(self.rank.keep({"rng": torch.get_rng_state(), "best": 0.5, "at": (1, "x")}))
        self.assertEqual(self.rank.kept()["at"], (1, "x"))

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU here")
    def test_what_a_script_with_a_GPU_has_kept_is_read_without_one(self):
        here, there = io.BytesIO(), io.BytesIO()
        torch.save({"at": torch.ones(2)}, here)
        with zipfile.ZipFile(here) as old, zipfile.ZipFile(there, "w") as new:
            for name in old.namelist():
                content = old.read(name).replace(b"X\3\0\0\0cpu", b"X\6\0\0\0cuda:0")
                new.writestr(name, content)
        there.seek(0)
        self.assertEqual(blobs.read(there)["at"].tolist(), [1, 1])

    def test_after_close_the_model_has_memory_of_its_own_and_trains_on(self):
        before = values(self.model)
        self.rank.close()
        self.rank.close()
        self.assertNotEqual(self.weight.data_ptr(), self.address)
        self.assertTrue(equal(before, values(self.model)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(self.model, self.optimizer, 2)
        said = "rank 0 is closed: steps of its script are in no rank now"
        self.assertEqual([str(w.message) for w in caught], [said])

    def test_a_rank_that_is_forgotten_lets_the_model_go(self):
        model = network()
        with Node() as node:
            grapevine.join(model, sgd(model), node.path)
            address = model[0].weight.data_ptr()
            gc.collect()
            self.assertNotEqual(model[0].weight.data_ptr(), address)
            with join_when_free(network(), None, node):
                pass


class GraphsAcrossSteps(unittest.TestCase):
    def test_a_graph_that_is_alive_across_a_STEP_raises(self):
        with Node() as node:
            generator, judge = nn.Linear(4, 4), nn.Linear(4, 1)
            both = nn.ModuleList([generator, judge])
            rank = grapevine.join(both, None, node.path)
            hidden = generator(torch.randn(16, 4)).tanh()
            made = generator(hidden)
            rank.step()
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                judge(made).mean().backward()
            rank.close()

    def test_no_optimizer_steps_while_the_model_is_the_mean(self):
        one, other = nn.Linear(4, 4), nn.Linear(4, 4)
        both, first, last = nn.ModuleList([one, other]), sgd(one), sgd(other)
        with Node() as node, grapevine.join(both, last, node.path, also=[first]) as rank:
            with rank.mean():
                for optimizer in (first, last):
                    with self.assertRaisesRegex(RuntimeError, "no step"):
                        optimizer.step()

    def test_two_optimizers_make_one_STEP_after_the_last(self):
        def run(joined):
            torch.manual_seed(0)
            generator = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
            judge = nn.Linear(4, 1)
            both = nn.ModuleList([generator, judge])
            first, last = sgd(judge, 0.01), sgd(generator, 0.01)
            rank = joined and grapevine.join(both, last, node.path, also=[first])
            for _ in range(4):
                first.zero_grad()
                fake = generator(torch.randn(16, 4))
                real = judge(torch.randn(16, 4))
                loss = functional.softplus(judge(fake.detach())) + functional.softplus(-real)
                loss.mean().backward()
                first.step()
                last.zero_grad()
                functional.softplus(-judge(fake)).mean().backward()
                last.step()
            steps = rank and rank.steps
            if rank:
                rank.close()
            return values(both), steps

        with Node() as node:
            bare, _ = run(False)
            own, steps = run(True)
        self.assertTrue(equal(bare, own))
        self.assertEqual(steps, 4)


class Layouts(unittest.TestCase):
    def test_another_model_is_refused_and_a_second_script_gets_the_first_ones_values(self):
        with Node(2) as node:
            one = network()
            first = grapevine.join(one, sgd(one), node.path)
            with self.assertRaises(grapevine.Refused) as caught:
                grapevine.join(nn.Linear(3, 3), None, node.path)
            self.assertNotIn("\n", str(caught.exception))
            other = network()
            second = grapevine.join(other, sgd(other), node.path)
            self.assertTrue(equal(values(one)[:6], values(other)[:6]))
            with self.assertRaisesRegex(grapevine.Refused, "seat"):
                grapevine.join(network(), None, node.path)
            self.assertEqual({first.rank, second.rank}, {0, 1})
            first.close()
            second.close()

    def test_a_view_keeps_the_strides_of_dimensions_of_size_one(self):
        model = nn.Conv2d(1, 8, 3)
        model.weight.data = model.weight.data.as_strided((8, 1, 3, 3), (9, 1, 3, 1))
        layout = layout_of(model, [])
        memory = mmap.mmap(-1, 4096)
        self.assertEqual(views_of(memory, layout)[0].stride(), (9, 1, 3, 1))

    def test_a_layout_tells_every_name_and_what_is_fp64(self):
        model = nn.ModuleList([nn.Linear(3, 4, bias=False), nn.Linear(4, 3, bias=False)])
        model[1].weight.data = model[0].weight.data.t()
        model.append(model[0])
        model.register_buffer("count", torch.tensor(0.5, dtype=torch.float64))
        model.register_buffer("mean", torch.zeros(3))
        layout = layout_of(nn.ModuleDict({"module": model}), [])
        self.assertEqual(
            layout.text("run").decode().splitlines(),
            ["run", "trained 0.weight 4 3", "aside mean 3", "aside64 count",
             "tied 1.weight 0.weight 3:1 4:3", "tied 2.weight 0.weight 4:3 3:1"],
        )
        self.assertEqual(layout.spans(), [(0, 48), (48, 60), (64, 72)])


if __name__ == "__main__":
    unittest.main()
