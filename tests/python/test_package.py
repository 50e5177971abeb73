"""What a user of the Python package relies on. Needs NumPy; what needs torch, ml_dtypes or safetensors runs where it is."""

import doctest
import http.server
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy

import ckpt

try:
    import torch
except ImportError:
    torch = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import safetensors.numpy
except ImportError:
    safetensors = None

README = os.environ.get("CKPT_PYTHON_README", "")


def arrays():
    generator = numpy.random.default_rng(0)
    return {
        "module.fc.weight": generator.standard_normal((300, 200)).astype("float32"),
        "module.fc.bias": generator.standard_normal(3),
        "module.steps": numpy.array(7),
        "module.mask": numpy.array([True, False]),
        "module.empty": numpy.zeros((0, 4), "float16"),
    }


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)


class Opening(InFolder):
    def test_is_a_lazy_mapping_in_file_order(self):
        state = arrays()
        for name in ("a.pth", "a.safetensors", "a.ckpt", "a.npz", "a.h5"):
            ckpt.save(state, name)
            opened = ckpt.open(name)
            self.assertEqual(len(opened), 5, name)
            self.assertEqual(set(opened), set(state), name)
            for key, tensor in opened.items():
                values = numpy.asarray(tensor)
                self.assertEqual(values.dtype, state[key].dtype, (name, key))
                numpy.testing.assert_array_equal(values, state[key])
                self.assertEqual(tensor.shape, state[key].shape)
                self.assertEqual(tensor.tobytes(), state[key].tobytes())
        self.assertEqual(list(ckpt.open("a.pth")), list(state))
        self.assertIn("module.fc.bias", opened)
        self.assertIsNone(opened.get("nothing"))
        with self.assertRaises(KeyError):
            opened["nothing"]

    def test_arrays_look_into_the_file_and_cannot_be_written_to(self):
        ckpt.save(arrays(), "a.safetensors")
        array = ckpt.open("a.safetensors")["module.fc.weight"].numpy()
        self.assertFalse(array.flags.writeable)
        again = ckpt.open("a.safetensors")["module.fc.weight"].numpy()
        self.assertEqual(array.ctypes.data, again.ctypes.data)
        own = ckpt.open("a.safetensors")["module.fc.weight"].numpy(copy=True)
        own[0, 0] = 5
        self.assertNotEqual(array[0, 0], 5)

    def test_arrays_outlive_their_checkpoint(self):
        ckpt.save(arrays(), "a.pth")
        array = ckpt.open("a.pth")["module.fc.weight"].numpy()
        os.remove("a.pth")
        numpy.testing.assert_array_equal(array, arrays()["module.fc.weight"])

    def test_tree_has_everything(self):
        tree = {"epoch": 3, "big": -(2**90), "lr": 0.1, "z": 1 + 2j, "name": "a\u00e9\ud800", "raw": b"\0x", "none": None,
                "list": [1, (2, 3)], "set": {4}, 5: "five", "flag": True, "fc": numpy.ones(2)}
        ckpt.save(tree, "a.pth")
        back = ckpt.open("a.pth").tree
        self.assertIsInstance(back.pop("fc"), ckpt.Tensor)
        tree.pop("fc")
        self.assertEqual(back, tree)
        self.assertIs(back["flag"], True)

    def test_metadata(self):
        ckpt.save({"a": numpy.ones(1)}, "a.safetensors", metadata={"license": "MIT"})
        opened = ckpt.open("a.safetensors")
        self.assertEqual(opened.metadata, {"format": "pt", "license": "MIT"})
        changed = opened.with_metadata({"by": "me"}, unset=["license"])
        self.assertEqual(changed.metadata, {"format": "pt", "by": "me"})

    @unittest.skipUnless(ml_dtypes, "needs ml_dtypes")
    def test_small_floats(self):
        values = numpy.array([1.5, -2, 0.25])
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            array = values.astype(getattr(ml_dtypes, name))
            ckpt.save({"a": array}, "a.safetensors")
            back = ckpt.open("a.safetensors")["a"]
            self.assertEqual(back.dtype, name)
            self.assertEqual(back.numpy().dtype, array.dtype)
            numpy.testing.assert_array_equal(back.numpy().astype("float64"), values)


class Changing(InFolder):
    def setUp(self):
        super().setUp()
        ckpt.save({"model": arrays(), "epoch": 3}, "a.pth")
        self.opened = ckpt.open("a.pth")

    def test_prefixes(self):
        plain = self.opened.strip_prefix()
        self.assertIn("model.fc.weight", plain)
        plain.save("a.pth")  # over the file that it is read from
        self.assertEqual(list(ckpt.open("a.pth").add_prefix("net."))[0], "model.net.fc.weight")

    def test_a_prefix_that_no_key_has_is_a_warning(self):
        with self.assertWarnsRegex(ckpt.Warning, "no key begins with 'net.'; they begin with 'module.'"):
            self.opened.strip_prefix("net.")

    def test_names_by_table_and_rules(self):
        key = "module.fc.bias"
        self.assertIn("model.b", self.opened.rename({key: "b"}))
        self.assertIn("model.module.head.bias", self.opened.rename('[[rule]]\nrename = "module.fc.*"\nto = "module.head.*"\n'))
        with open("rules.json", "w") as file:
            file.write('{"module.fc.bias": "c"}')
        self.assertIn("model.c", self.opened.rename("rules.json"))
        with self.assertRaisesRegex(ckpt.Error, "nope"):
            self.opened.rename({"nope": "b"})
        with self.assertRaisesRegex(ckpt.Error, "neither a rule pack nor a file"):
            self.opened.rename("no-such-pack")

    def test_devices_types_and_parts(self):
        moved = self.opened.remap("cuda:1")
        self.assertEqual({t.device for t in moved.values()}, {"cuda:1"})
        half = self.opened.cast("float16", keep=["*.bias"])
        self.assertEqual(half["model.module.fc.weight"].dtype, "float16")
        self.assertEqual(half["model.module.fc.bias"].dtype, "float64")
        numpy.testing.assert_array_equal(half["model.module.fc.weight"].numpy(),
                                         arrays()["module.fc.weight"].astype("float16"))
        self.assertEqual(list(self.opened.select(["model.*"], exclude=["*.bias"]).part("model"))[0], "module.fc.weight")

    def test_quantised_blocks(self):
        weights = numpy.linspace(-1, 1, 128, dtype="float32").reshape(2, 64)
        ckpt.save({"w": weights, "kept": weights}, "plain.gguf")
        ckpt.open("plain.gguf").quantize("Q8_0", keep=["kept"]).save("packed.gguf")
        packed = ckpt.open("packed.gguf")
        with self.assertRaisesRegex(ckpt.Error, r"write their values \(dequantize\(\)\)"):
            packed.save("packed.safetensors")
        values = packed.dequantize()
        self.assertEqual(values["w"].shape, (2, 64))
        numpy.testing.assert_allclose(values["w"].numpy(), weights, atol=1 / 127)
        numpy.testing.assert_array_equal(values["kept"].numpy(), weights)
        self.assertEqual(packed.dequantize("float16")["w"].dtype, "float16")
        with self.assertRaisesRegex(ckpt.Error, "not int32"):
            packed.dequantize("int32")

    def test_merges(self):
        for name, value in (("base", 0), ("a", 1), ("b", 3)):
            ckpt.save({"w": numpy.full((2, 2), value, "float32")}, f"{name}.safetensors")
        models = ["a.safetensors", ckpt.open("b.safetensors")]
        numpy.testing.assert_array_equal(ckpt.merge(models)["w"].numpy(), numpy.full((2, 2), 2.0))
        merged = ckpt.merge(models, "base.safetensors", method="task_arithmetic", weights=[1, 0.5])
        numpy.testing.assert_array_equal(merged["w"].numpy(), numpy.full((2, 2), 2.5))
        with self.assertRaisesRegex(ckpt.Error, "ties needs a base"):
            ckpt.merge(models, method="ties")
        with self.assertRaisesRegex(ckpt.Error, "no method 'mean'"):
            ckpt.merge(models, method="mean")

    def test_merge_lora(self):
        os.mkdir("adapter")
        with open("adapter/adapter_config.json", "w") as file:
            file.write('{"peft_type": "LORA", "lora_alpha": 2}')
        ckpt.save({"base_model.model.fc.lora_A.weight": numpy.ones((1, 3), "float32"),
                   "base_model.model.fc.lora_B.weight": numpy.ones((2, 1), "float32")},
                  "adapter/adapter_model.safetensors")
        ckpt.save({"fc.weight": numpy.zeros((2, 3), "float32")}, "base.pth")
        merged = ckpt.open("base.pth").merge_lora("adapter", strength=0.5)
        numpy.testing.assert_array_equal(merged["fc.weight"].numpy(), numpy.ones((2, 3)))

    def test_in_place_and_options(self):
        self.opened.strip_prefix().save("a.pth", in_place=True)
        self.assertIn("model.fc.weight", ckpt.open("a.pth"))
        with self.assertRaisesRegex(ckpt.Error, "a.pth") as caught:
            ckpt.open("a.pth").save("a.pth", overwrite=False)
        self.assertEqual(caught.exception.code, "io")
        with self.assertRaisesRegex(ckpt.Error, "there is no argument 'overwrit'"):
            ckpt.open("a.pth").save("b.pth", overwrit=False)
        with self.assertRaisesRegex(ckpt.Error, "there is no codec 'lzma'"):
            ckpt.open("a.pth").save("b.ckpt", codec="lzma")


class Judging(InFolder):
    def test_why_and_fix(self):
        ckpt.save({"model": arrays()}, "a.pth")
        wanted = {key.removeprefix("module."): value for key, value in arrays().items()}
        diagnosis = ckpt.why("a.pth", wanted)
        self.assertFalse(diagnosis.loads)
        self.assertTrue(diagnosis.fixable)
        self.assertEqual(diagnosis.causes[1].kind, "wrapper_prefix")
        ckpt.fix("a.pth", wanted).save("b.safetensors")
        self.assertTrue(ckpt.why("b.safetensors", wanted).loads)
        self.assertTrue(ckpt.why("b.safetensors", "b.safetensors").loads)
        with self.assertRaisesRegex(ckpt.Error, "no change to the file makes it load"):
            ckpt.fix("a.pth", "resnet18")
        with self.assertRaisesRegex(ckpt.Error, "similar: "):
            ckpt.why("a.pth", "resnet81")

    def test_diff_and_verify(self):
        ckpt.save(arrays(), "a.pth")
        ckpt.save(arrays(), "b.safetensors")
        self.assertTrue(ckpt.diff("a.pth", "b.safetensors").equal)
        other = arrays()
        other["module.fc.weight"][3, 4] += 1
        ckpt.save(other, "b.safetensors")
        diff = ckpt.diff("a.pth", ckpt.open("b.safetensors"))
        self.assertEqual([(d.name, d.differing) for d in diff.differences], [("module.fc.weight", 1)])
        self.assertTrue(ckpt.verify("a.pth").good)

    def test_damage_is_found(self):
        ckpt.save(arrays(), "a.ckpt")
        with open("a.ckpt", "r+b") as file:
            values = arrays()["module.fc.weight"].tobytes()
            at = file.read().index(values[:64])
            file.seek(at + 10)
            file.write(b"\xff")
        found = ckpt.verify("a.ckpt")
        self.assertFalse(found.good)
        self.assertEqual(found.damage[0][0], "module.fc.weight")
        with self.assertRaises(ckpt.Error) as caught:
            ckpt.open("a.ckpt").save("b.ckpt")
        self.assertEqual(caught.exception.code, "corrupt")
        self.assertFalse(os.path.exists("b.ckpt"))


class OtherMachines(InFolder):
    def test_a_file_is_read_by_range_requests(self):
        ckpt.save(arrays(), "a.safetensors")
        with open("a.safetensors", "rb") as file:
            content = file.read()

        class Ranges(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                begin, end = self.headers["Range"].removeprefix("bytes=").split("-")
                part = content[int(begin) : int(end) + 1]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {begin}-{int(begin) + len(part) - 1}/{len(content)}")
                self.send_header("Content-Length", str(len(part)))
                self.send_header("ETag", '"1"')
                self.end_headers()
                self.wfile.write(part)

            def log_message(self, *arguments):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Ranges)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        try:
            opened = ckpt.open(f"http://127.0.0.1:{server.server_port}/a.safetensors")
        except ckpt.Error as error:
            if "libcurl" in str(error):
                self.skipTest(str(error))
            raise
        numpy.testing.assert_array_equal(opened["module.fc.bias"].numpy(), arrays()["module.fc.bias"])

    def test_passwords_and_other_schemes_are_refused(self):
        for address in ("https://user:secret@host/a.pth", "ftp://host/a.pth"):
            with self.assertRaises(ckpt.Error) as caught:
                ckpt.open(address)
            self.assertNotIn("secret", str(caught.exception))


class BadInput(InFolder):
    def test_one_sentence_and_a_code(self):
        for content, code in ((b"", "corrupt"), (b"\x80\x02cos\nsystem\n.", "refused"), (b"PK\3\4", "corrupt")):
            with open("bad.pth", "wb") as file:
                file.write(content)
            with self.assertRaisesRegex(ckpt.Error, "^bad.pth: ") as caught:
                ckpt.open("bad.pth")
            self.assertIn(caught.exception.code, (code, "unsupported", "refused"))
            self.assertNotIn("\n", str(caught.exception))

    def test_a_package_of_another_python_says_so(self):
        os.mkdir("ckpt")
        for name in os.listdir(os.path.dirname(ckpt.__file__)):
            if name.endswith(".py"):
                shutil.copy(os.path.join(os.path.dirname(ckpt.__file__), name), "ckpt")
        run = [sys.executable, "-c", "import ckpt"]
        text = subprocess.run(run, capture_output=True, text=True, check=False).stderr
        self.assertRegex(text.splitlines()[-1], "^ImportError: .*/ckpt has no compiled module: install the package")
        with open("ckpt/_ckpt.cpython-39-x86_64-linux-gnu.so", "wb"):
            pass
        text = subprocess.run(run, capture_output=True, text=True, check=False).stderr
        self.assertRegex(text.splitlines()[-1], r"is for another Python \(_ckpt.cpython-39-.*\) than this one, cpython 3")

    def test_what_cannot_be_saved_is_named(self):
        class Mine:
            pass

        with self.assertRaisesRegex(ckpt.Error, "'a.1' is of type .*Mine"):
            ckpt.save({"a": [1, Mine()]}, "a.pth")
        loop = []
        loop.append(loop)
        with self.assertRaisesRegex(ckpt.Error, "holds itself"):
            ckpt.save({"a": loop}, "a.pth")
        with self.assertRaisesRegex(ckpt.Error, "no array of numbers"):
            ckpt.save({"a": numpy.array(["x"])}, "a.pth")
        self.assertEqual(os.listdir("."), [])

    def test_arguments_of_the_wrong_type(self):
        with self.assertRaisesRegex(ckpt.Error, "lenient cannot be 'yes'"):
            ckpt.open("a.pth", lenient="yes")
        with self.assertRaises(TypeError):
            ckpt.open(3)


class Processes(InFolder):
    def test_ctrl_c_ends_a_save_and_leaves_nothing(self):
        state = {str(i): numpy.zeros(1 << 20) for i in range(64)}
        calls = []

        def interrupt(done, total):
            calls.append(done)
            signal.raise_signal(signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            ckpt.save(state, "a.pth", progress=interrupt)
        self.assertTrue(calls)
        self.assertEqual(os.listdir("."), [])

    def test_progress_may_raise(self):
        def stop(done, total):
            raise ValueError("enough")

        with self.assertRaisesRegex(ValueError, "enough"):
            ckpt.save({"a": numpy.zeros(1 << 22)}, "a.safetensors", progress=stop)
        self.assertEqual(os.listdir("."), [])

    def test_other_threads_run_meanwhile(self):
        ckpt.save({str(i): numpy.zeros(1 << 20) for i in range(32)}, "a.pth")
        results = []
        threads = [threading.Thread(target=lambda: results.append(ckpt.verify("a.pth").good)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 4)

    def test_the_tool_is_there(self):
        ckpt.save(arrays(), "a.pth")
        run = [sys.executable, "-m", "ckpt"]
        listed = subprocess.run([*run, "ls", "a.pth"], capture_output=True, text=True, check=True)
        self.assertIn("module.fc.weight", listed.stdout)
        self.assertEqual(subprocess.run([*run, "ls", "no.pth"], capture_output=True).returncode, 4)


class Starting(unittest.TestCase):
    def seconds(self, code):
        """Time of processors, of which a busy machine takes no more, in the quickest of some runs."""
        spent = []
        for _ in range(20):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(spent)

    def test_importing_takes_no_longer_than_promised(self):
        took = self.seconds("import ckpt") - self.seconds("pass")
        print(f"import ckpt: {took * 1e3:.1f} ms of processor time")
        self.assertLess(took, 0.030)

    def test_importing_imports_neither_arrays_nor_what_few_need(self):
        code = "import sys, ckpt; print(*sys.modules)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual({"html", "numpy", "torch", "ckpt._html", "ckpt._missing"} & set(run.stdout.split()), set())


@unittest.skipUnless(torch, "needs torch")
class WithTorch(InFolder):
    def net(self):
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(),
                                  torch.nn.Linear(288, 300))
        net(torch.randn(4, 3, 8, 8))
        return net

    def assert_equal_states(self, a, b):
        self.assertEqual(list(a), list(b))
        for key in a:
            self.assertEqual(a[key].dtype, b[key].dtype)
            self.assertTrue(torch.equal(a[key], b[key]), key)

    def test_saved_files_load_in_torch(self):
        net = self.net()
        optimizer = torch.optim.Adam(net.parameters())
        net(torch.randn(4, 3, 8, 8)).sum().backward()
        optimizer.step()
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "device": torch.device("cuda:1"),
                 "dtype": torch.bfloat16, "shape": torch.Size([2, 3]), "bf16": torch.ones(3, dtype=torch.bfloat16)}
        ckpt.save(state, "a.pth")
        back = torch.load("a.pth", weights_only=True)
        self.assert_equal_states(back["model"], net.state_dict())
        self.assertEqual(back["model"]._metadata, net.state_dict()._metadata)
        self.assertEqual({k: back[k] for k in ("device", "dtype", "shape")}, {k: state[k] for k in ("device", "dtype", "shape")})
        torch.optim.Adam(net.parameters()).load_state_dict(back["optimizer"])

    def test_ties_views_and_parameters_stay(self):
        weight = torch.nn.Parameter(torch.randn(4, 6))
        ckpt.save({"a": weight, "b": weight.detach(), "t": weight.detach().t(), "row": weight.detach()[1]}, "a.pth")
        back = torch.load("a.pth", weights_only=True)
        self.assertEqual(back["a"].data_ptr(), back["b"].data_ptr())
        self.assertEqual(back["t"].stride(), (1, 6))
        self.assertEqual(back["row"].untyped_storage().data_ptr(), back["a"].untyped_storage().data_ptr())
        self.assertIsInstance(back["a"], torch.nn.Parameter)
        self.assertTrue(torch.equal(back["t"], weight.detach().t()))

    def test_tensors_are_those_that_torch_loads(self):
        state = {"f": torch.randn(400, 100), "bf": torch.randn(300, 200).bfloat16(), "h": torch.randn(5).half(),
                 "f8": torch.randn(9).to(torch.float8_e4m3fn), "c": torch.randn(3, dtype=torch.complex64),
                 "i": torch.arange(5), "b": torch.tensor([True, False]), "s": torch.tensor(2.5), "e": torch.zeros(0, 3)}
        torch.save(state, "a.pth")
        opened = ckpt.open("a.pth")
        for key, value in state.items():
            for loaded in (opened[key].torch(), torch.from_dlpack(opened[key]), opened[key].torch(copy=True)):
                self.assertEqual(loaded.dtype, value.dtype, key)
                self.assertEqual(loaded.shape, value.shape, key)
                self.assertEqual(loaded.contiguous().view(-1).view(torch.uint8).tolist(),
                                 value.contiguous().view(-1).view(torch.uint8).tolist(), key)

    def test_what_is_written_to_a_tensor_stays_in_it(self):
        torch.save({"a": torch.zeros(100, 300)}, "a.pth")
        opened = ckpt.open("a.pth")
        written = opened["a"].torch()
        written += 1
        self.assertEqual(opened["a"].torch().sum(), 0)
        self.assertEqual(opened["a"].numpy().sum(), 0)
        self.assertEqual(torch.load("a.pth")["a"].sum(), 0)

    def test_load_into_takes_what_is_proven(self):
        trained, fresh = self.net(), self.net()
        torch.nn.init.zeros_(fresh[0].weight)
        torch.save({"model": torch.nn.DataParallel(trained).state_dict(), "epoch": 3}, "a.pth")
        loaded = ckpt.load_into(fresh, "a.pth")
        self.assertEqual(loaded.steps, ["take 'model'", "strip 'module.'"])
        self.assertEqual(repr(loaded), "<All keys matched successfully> after: take 'model', strip 'module.'")
        self.assertEqual(loaded, fresh.load_state_dict(trained.state_dict()))
        self.assert_equal_states(fresh.state_dict(), trained.state_dict())
        wrapped = torch.nn.DataParallel(self.net())
        ckpt.save(trained, "plain.safetensors")
        ckpt.load_into(wrapped, "plain.safetensors")
        self.assert_equal_states(wrapped.module.state_dict(), trained.state_dict())

    def test_load_into_leaves_nothing_out_in_silence(self):
        trained, fresh = self.net(), self.net()
        state = {f"module.{key}": value for key, value in trained.state_dict().items()}
        torch.save({**state, "module.extra.weight": torch.ones(2)}, "more.pth")
        with self.assertRaisesRegex(RuntimeError, "extra.weight"):
            ckpt.load_into(fresh, "more.pth")
        torch.nn.init.zeros_(fresh[0].weight)
        loaded = ckpt.load_into(fresh, "more.pth", strict=False)
        self.assertEqual((loaded.missing_keys, loaded.unexpected_keys), ([], ["extra.weight"]))
        self.assertIn("strip 'module.'", loaded.steps)
        self.assert_equal_states(fresh.state_dict(), trained.state_dict())

    def test_load_into_takes_a_part_under_other_names(self):
        trained, fresh = self.net(), self.net()
        state = {f"module.{key}": value for key, value in trained.state_dict().items() if not key.startswith("3.")}
        torch.save(state, "less.pth")
        with self.assertRaisesRegex(RuntimeError, "Missing key"):
            ckpt.load_into(fresh, "less.pth")
        torch.nn.init.zeros_(fresh[0].weight)
        missing, unexpected = ckpt.load_into(fresh, "less.pth", strict=False)
        self.assertEqual((missing, unexpected), (["3.weight", "3.bias"], []))
        self.assertTrue(torch.equal(fresh[0].weight, trained[0].weight))

    def test_load_into_assigns(self):
        trained = self.net()
        ckpt.save(trained, "a.safetensors")
        with torch.device("meta"):
            fresh = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(),
                                        torch.nn.Linear(288, 300))
        loaded = ckpt.load_into(fresh, "a.safetensors", assign=True)
        self.assertEqual((loaded.steps, repr(loaded)), ([], "<All keys matched successfully>"))
        self.assert_equal_states(fresh.state_dict(), trained.state_dict())

    def test_load_into_takes_the_values_of_quantised_blocks(self):
        trained, fresh = torch.nn.Linear(64, 3), torch.nn.Linear(64, 3)
        ckpt.save(torch.nn.DataParallel(trained), "plain.gguf")
        ckpt.open("plain.gguf").quantize("Q8_0").save("packed.gguf")
        ckpt.load_into(fresh, "packed.gguf")
        self.assertTrue(torch.equal(fresh.bias, trained.bias))
        torch.testing.assert_close(fresh.weight, trained.weight, atol=1e-2, rtol=0)

    def test_load_into_says_what_torch_says(self):
        torch.save(torch.nn.Linear(3, 4).state_dict(), "a.pth")
        with self.assertRaisesRegex(RuntimeError, r"Missing key\(s\) in state_dict") as caught:
            ckpt.load_into(self.net(), "a.pth")
        if hasattr(caught.exception, "__notes__"):
            self.assertIn("a.pth", caught.exception.__notes__[0])

    def test_sparse_and_meta_tensors_are_refused(self):
        for tensor in (torch.eye(2).to_sparse(), torch.empty(2, device="meta")):
            with self.assertRaises(ckpt.Error) as caught:
                ckpt.save({"a": tensor}, "a.pth")
            self.assertEqual(caught.exception.code, "unsupported")


@unittest.skipUnless(safetensors, "needs safetensors")
class WithSafetensors(InFolder):
    def test_both_read_what_the_other_writes(self):
        state = {"a": numpy.ones((2, 3), "float32"), "b": numpy.arange(4)}
        safetensors.numpy.save_file(state, "a.safetensors")
        ckpt.open("a.safetensors").save("b.safetensors")
        back = safetensors.numpy.load_file("b.safetensors")
        for key, value in state.items():
            numpy.testing.assert_array_equal(back[key], value)


class Notebook(InFolder):
    def test_names_of_a_file_are_escaped(self):
        ckpt.save({"<script>.x": numpy.ones(2)}, "a.pth")
        page = ckpt.open("a.pth")._repr_html_()
        self.assertNotIn("<script>", page)
        self.assertIn("&lt;script&gt;", page)


@unittest.skipUnless(README, "the README is not here")
class Readme(InFolder):
    def test_says_what_happens(self):
        result = doctest.testfile(README, module_relative=False)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 15)


if __name__ == "__main__":
    warnings.simplefilter("error", ckpt.Warning)
    unittest.main()
