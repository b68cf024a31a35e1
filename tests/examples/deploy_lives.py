"""Runs as examples/deploy starts them: stopped as their place would stop them, and started again.

There is no cluster. What replaces one is said at each class, and is never a part of the program or
of the file that is tested.
"""

import glob
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import unittest

from deploy_tools import (DEPLOY, HERE, JOB, PROGRAM, ROOT, Lives, gone_on_from,
                          gradients_saved_in, make_key, objects_in, record_in, run, text_of)


def loopback(host):
    """An address of this machine that no other run of these tests has."""
    return f"127.{1 + os.getpid() % 250}.{os.getpid() // 250 % 250}.{host}"


def system_here():
    """As an image would be named: debian:12."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "no system that has a name"
    return f"{release.get('ID')}:{release.get('VERSION_ID')}"


def first_port_of(job):
    """Where the first task of a job of Slurm listens."""
    return 20000 + 6181 * job % 10000


class Slurm(Lives):
    """srun and scontrol are stand-ins (slurm/): a launcher, and a note of what was asked for."""

    def setUp(self):
        super().setUp()
        self.script = os.path.join(DEPLOY, "slurm.sh")
        directives = dict(
            re.findall(r"^#SBATCH --([a-z-]+)=(\S+)", text_of("slurm.sh"), re.MULTILINE))
        self.tasks = int(directives["ntasks"])
        self.assertEqual(directives["signal"].split("@")[0], "TERM")  # saves and drains a node
        self.run_folder = self.path("run")
        self.key = self.path("run", "run.key")
        job = self.job_with_free_ports()
        self.addresses = [f"localhost:{first_port_of(job) + task}" for task in range(self.tasks)]
        self.environment.update({
            "PATH": os.path.join(HERE, "slurm") + ":" + os.environ["PATH"],
            "STAND_IN_FOLDER": self.folder,
            "GRAPEVINE": PROGRAM,
            "RUN": self.run_folder,
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NODELIST": "localhost",
            "SLURM_NTASKS": str(self.tasks),
            "SLURM_CPUS_PER_TASK": "2",  # as `sbatch --cpus-per-task=2` overrides the file's
        })

    def job_with_free_ports(self):
        for job in range(100000 + os.getpid() % 9000, 110000, self.tasks):
            try:
                for task in range(self.tasks):
                    with socket.socket() as tried:
                        tried.bind(("localhost", first_port_of(job) + task))
                return job
            except OSError:
                continue
        return self.fail("no free ports for a job")

    def start_job(self, **variables):
        return self.start([self.script, *JOB], **variables)

    def signal_tasks(self, *signals):
        """As Slurm does to a job that has a grace time: to its tasks, not to the batch script."""
        with open(self.path("tasks"), encoding="utf-8") as file:
            for task in file.read().split():
                for number in signals:
                    os.kill(int(task), number)

    def asked_of_scontrol(self):
        try:
            with open(self.path("scontrol"), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def folders(self):
        return [os.path.join(self.run_folder, f"node-{task}") for task in range(self.tasks)]

    def await_tasks(self, job, saved=None):
        """Each of them: one hears of the others, and computes, later than another."""
        for address, folder in zip(self.addresses, self.folders()):
            above = saved[folder] if saved else 0
            self.await_training(job, address, self.key, nodes=self.tasks, above=above)

    def test_a_preempted_job_queues_again_goes_on_and_ends_when_the_run_does(self):
        job = self.start_job()
        self.await_tasks(job)
        self.signal_tasks(signal.SIGCONT, signal.SIGTERM)
        self.assertEqual(job.wait(), 0, job.said())
        self.assertEqual(self.asked_of_scontrol(), [f"requeue {self.environment['SLURM_JOB_ID']}"])
        saved = {folder: gradients_saved_in(folder) for folder in self.folders()}
        self.assertGreater(min(saved.values()), 0)

        again = self.start_job(SLURM_RESTART_COUNT="1")
        self.await_tasks(again, saved)
        self.stop_run(self.addresses[0], self.key)
        self.assertEqual(again.wait(), 0, again.said())
        told = re.findall(r"resumes from (\S+)/checkpoints/\d+, after ([\d,]+) grad", again.said())
        self.assertEqual({folder: int(n.replace(",", "")) for folder, n in told}, saved)
        for folder in self.folders():
            record = record_in(folder)
            self.assertEqual(record["state"], "finished")
            self.assertGreater(record["result"]["gradients"], saved[folder])
            self.assertEqual(record["options"]["threads"], 2)  # those of the job, not one
        self.assertEqual(len(self.asked_of_scontrol()), 1)  # a run that is done is not queued again

    def test_a_job_that_fails_is_not_queued_again(self):
        job = self.start_job()
        self.await_tasks(job)
        self.signal_tasks(signal.SIGKILL)
        self.assertNotEqual(job.wait(), 0)
        self.assertEqual(self.asked_of_scontrol(), [])


class Systemd(Lives):
    """The unit's own command, with what systemd puts into it; the test does what its rules ask."""

    def setUp(self):
        super().setUp()
        text = text_of("grapevine@.service")
        self.unit = dict(re.findall(r"^([A-Za-z]+)=(.*)$", text, re.MULTILINE))
        self.key = self.path("run.key")
        make_key(self.key)
        self.address = loopback(1) + ":7001"

    def command(self, *options):
        words = {
            "${CREDENTIALS_DIRECTORY}": self.folder,
            "${STATE_DIRECTORY}": self.folder,
            "%i": "a",
            "/usr/local/bin/grapevine": PROGRAM,
            "$OPTIONS": shlex.join(["--listen", self.address, "--ranks", "2", "--threads", "1",
                                    *JOB, *options]),
        }
        line = self.unit["ExecStart"]
        for word, value in words.items():
            self.assertIn(word, line)
            line = line.replace(word, value)
        self.assertNotIn("$", line)
        return shlex.split(line)

    def live(self):
        node = self.start(self.command("--checkpoint-every", "500steps"))
        self.await_training(node, self.address, self.key)
        return node

    def test_a_unit_that_is_stopped_or_crashes_goes_on_at_the_next_start(self):
        self.assertEqual(self.unit["Restart"], "on-failure")
        self.assertEqual(self.unit["StartLimitIntervalSec"], "0")  # however often
        out = self.path("run")
        node = self.live()
        node.process.terminate()  # systemctl stop
        self.assertEqual(node.wait(float(self.unit["TimeoutStopSec"])), 0, node.said())
        saved = [gradients_saved_in(out)]
        node = self.live()
        node.process.kill()  # a crash, which on-failure starts again
        node.wait()
        saved.append(gradients_saved_in(out))
        node = self.live()
        self.stop_run(self.address, self.key)
        self.assertEqual(node.wait(), 0, node.said())
        self.assertEqual(gone_on_from(out), saved)
        self.assertEqual(record_in(out)["state"], "finished")

    def test_a_wrong_option_ends_with_the_status_that_is_not_started_again(self):
        node = self.start(self.command("--method", "none"))
        self.assertEqual(str(node.wait()), self.unit["RestartPreventExitStatus"])


class Container(Lives):
    """The Containerfile's last stage, without an engine: its user, its folder and its entry point.

    tests/install/wheel_test.py runs the step that installs the wheel.
    """

    def setUp(self):
        super().setUp()
        text = text_of("Containerfile").replace("\\\n", "")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        self.steps = [tuple(line.split(None, 1)) for line in lines]

    def values(self, instruction):
        return [value for word, value in self.steps if word == instruction]

    def test_it_copies_the_wheel_that_run_makes_and_nothing_else_of_the_tree(self):
        copied = [value.split()[0] for value in self.values("COPY")]
        self.assertEqual(copied, ["dist/*.whl", "--from=install"])
        self.assertEqual(text_of("Containerfile.dockerignore").split(), ["*", "!" + copied[0]])
        with open(os.path.join(ROOT, "run"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"make_wheel \S+ dist\n")

    def test_the_image_it_begins_with_has_every_package_that_it_installs(self):
        for image in self.values("FROM"):
            if image.split()[0] != system_here() + "-slim":
                self.skipTest(f"this is {system_here()} and not {image}")
        if not glob.glob("/var/lib/apt/lists/*Packages*"):
            self.skipTest("no package lists here (apt-get update)")
        packages = [word for value in self.values("RUN")
                    for found in re.findall(r"apt-get install ([^&]*)", value)
                    for word in found.split() if not word.startswith("-")]
        self.assertIn("python3", packages)
        told = run("apt-cache", "policy", *packages, env={**self.environment, "LC_ALL": "C"}).stdout
        had = dict(re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (\S+)", told, re.MULTILINE))
        self.assertEqual([p for p in packages if had.get(p, "(none)") == "(none)"], [])

    def start_in_image(self, *words):
        """The entry point as the image's user, who can write to the working folder and no other."""
        os.makedirs(self.path("bin"), exist_ok=True)
        shutil.copy(PROGRAM, self.path("bin/grapevine"))
        os.chmod(self.folder, 0o755)
        user, group = (int(number) for number in self.values("USER")[0].split(":"))
        self.assertGreater(user, 0)
        rights = {"user": user, "group": group, "extra_groups": []}
        options = rights if os.geteuid() == 0 else {}
        os.makedirs(self.path("work"), exist_ok=True)
        os.chmod(self.path("work"), 0o1777)
        entry = json.loads(self.values("ENTRYPOINT")[0])
        return self.start_with([*entry, *words], cwd=self.path("work"),
                               env={"PATH": self.path("bin") + ":/usr/bin:/bin"}, **options)

    def test_its_entry_point_trains_as_its_head_says(self):
        words = re.search(r"^# podman run .* grapevine (.*)$", text_of("Containerfile"),
                          re.MULTILINE).group(1).split()
        image = self.start_in_image(*words, "--ranks", "4", "--gradients", "4000", "--threads", "1")
        self.assertEqual(image.wait(), 0, image.said())
        folder, = glob.glob(self.path("work/runs/*"))
        self.assertEqual(record_in(folder)["state"], "finished")

    def test_it_saves_and_drains_when_its_engine_stops_it(self):
        out = self.path("work/run")
        image = self.start_in_image("train", "--out", out, "--ranks", "4", "--threads", "1",
                                    "--checkpoint-every", "100steps", *JOB)
        self.await_checkpoint(image, out)
        image.process.terminate()
        self.assertEqual(image.wait(), 0, image.said())
        self.assertTrue(record_in(out)["preempted"])
        self.assertGreater(gradients_saved_in(out), 0)

    @unittest.skipUnless("GRAPEVINE_CONTAINER_ENGINE" in os.environ,
                         "GRAPEVINE_CONTAINER_ENGINE names no engine (podman, buildah, docker)")
    def test_an_engine_builds_the_image(self):
        engine = os.environ["GRAPEVINE_CONTAINER_ENGINE"]
        path = os.path.join(DEPLOY, "Containerfile")
        packed = run(os.path.join(ROOT, "run"), "wheel")
        self.assertEqual(packed.returncode, 0, packed.stderr)
        built = run(engine, "build", "-t", "grapevine", "-f", path, ROOT)
        self.assertEqual(built.returncode, 0, built.stdout[-4000:] + built.stderr[-4000:])


class SkyPilot(Lives):
    """The machines' own command, in a shell and a home for each, with SkyPilot's variables."""

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "no module yaml here")
    def test_the_machines_are_one_run(self):
        import yaml

        task = yaml.safe_load(text_of("skypilot.yaml"))
        (key,) = [path for path in task["file_mounts"] if path.endswith("run.key")]
        make_key(self.path("run.key"))
        command = task["run"].replace(key, self.path("run.key"))
        self.assertIn(" --quiet\n", command)
        command = command.replace(" --quiet\n", f" --quiet --threads 1 {shlex.join(JOB)}\n")
        hosts = [loopback(k + 1) for k in range(task["num_nodes"])]
        variables = {"SKYPILOT_NODE_IPS": "\n".join(hosts), "SKYPILOT_NUM_NODES": str(len(hosts))}
        machines = []
        for k in range(len(hosts)):
            home = self.path(f"machine-{k}")
            os.makedirs(home + "/grapevine/bin")  # what its setup leaves
            os.symlink(PROGRAM, home + "/grapevine/bin/grapevine")
            machines.append(self.start(["bash", "-euc", command], HOME=home,
                                       SKYPILOT_NODE_RANK=str(k), **variables))
        for machine, host in zip(machines, hosts):
            self.await_training(machine, host + ":7001", self.path("run.key"), nodes=len(hosts))
        self.stop_run(hosts[0] + ":7001", self.path("run.key"))
        for machine in machines:
            self.assertEqual(machine.wait(), 0, machine.said())


class Pods(Lives):
    """Pods' own command, in four shells: addresses here for names, folders for volumes."""

    def setUp(self):
        super().setUp()
        if not importlib.util.find_spec("yaml"):
            self.skipTest("no module yaml here")
        self.read(objects_in(self.file))
        self.container, = self.pod["containers"]
        self.key = self.path("secret", "run.key")
        self.environment["PATH"] = os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]
        os.mkdir(self.path("secret"))
        make_key(self.key)

    def as_here(self, line, pod):
        """A line for a pod, with folders and addresses of this machine."""
        mounts = {m["name"]: m["mountPath"] for m in self.container["volumeMounts"]}
        folders = {mounts["key"]: self.path("secret"), mounts["run"]: self.disk_of(pod),
                   mounts["tmp"]: self.path(pod, "tmp")}
        line = re.sub(r"(?<=[\s=])(/[^/\s]+)(?=/)", lambda found: folders[found.group(1)], line)
        for k, name in enumerate(self.names):
            line = line.replace(f"{name}:", loopback(k + 1) + ":")
        service = self.names[0].split(".")[1]  # which has the addresses of all (node links_test)
        all_pods = ",".join(f"{loopback(k + 1)}:7001" for k in range(len(self.names)))
        return line.replace(f"--join {service}:7001", f"--join {all_pods}")

    def disk_of(self, pod):
        return self.path(pod, "disk")

    def command(self, pod):
        """What the manifest says, and a job that ends."""
        shell, flag = self.container["command"]
        line, = self.container["args"]
        self.assertIn(" --patience 300 ", line)
        job = f" --patience 300 --threads 1 {shlex.join(JOB)} "
        return [shell, flag, self.as_here(line.replace(" --patience 300 ", job), pod)]

    def variables(self, pod, address):
        known = {"metadata.name": pod, "status.podIP": address}
        return {v["name"]: known[v["valueFrom"]["fieldRef"]["fieldPath"]]
                for v in self.container["env"]}

    def start_pod(self, pod, address):
        os.makedirs(self.path(pod, "tmp"), exist_ok=True)
        os.makedirs(self.disk_of(pod), exist_ok=True)
        return self.start(self.command(pod), **self.variables(pod, address))

    def start_pods(self):
        """All of them, and their addresses."""
        hosts = [loopback(k + 1) for k in range(len(self.pods))]
        running = [self.start_pod(pod, host) for pod, host in zip(self.pods, hosts)]
        self.await_pods(running, hosts)
        return running, hosts

    def await_pods(self, running, hosts, saved=0):
        """Each of them: one hears of the others, and computes, later than another. The last one
        had so many gradients before. The probes of each are green by then, or soon are."""
        for pod, host in zip(running, hosts):
            above = saved if pod is running[-1] else 0
            self.await_training(pod, host + ":7001", self.key, nodes=len(self.pods), above=above)
            for kind in ("livenessProbe", "readinessProbe"):
                probe = self.container[kind]["httpGet"]
                ports = {p["name"]: p["containerPort"] for p in self.container["ports"]}
                self.await_probe(pod, f"http://{host}:{ports[probe['port']]}{probe['path']}")

    def check_what_is_read_and_written(self, given):
        line, = self.container["args"]
        self.assertEqual(set(re.findall(r"\$([A-Z]\w+)", line)), given)
        mounts = {m["mountPath"]: m["name"] for m in self.container["volumeMounts"]}
        volumes = {v["name"]: v for v in self.pod["volumes"]}
        self.assertIn("secret", volumes[mounts[re.search(r"-m 600 (/[^/]+)/", line).group(1)]])
        self.assertIn("emptyDir", volumes[mounts["/tmp"]])
        written = re.search(r"(?:--out |out=)(/[^/]+)/", line).group(1)
        return mounts[written]


class Kubernetes(Pods):
    file = "kubernetes.yaml"

    def read(self, objects):
        self.nodes = objects["StatefulSet"]
        self.pod = self.nodes["spec"]["template"]["spec"]
        name, service = self.nodes["metadata"]["name"], self.nodes["spec"]["serviceName"]
        self.pods = [f"{name}-{k}" for k in range(self.nodes["spec"]["replicas"])]
        self.names = [f"{pod}.{service}" for pod in self.pods]

    def test_what_a_pod_reads_and_writes_is_what_the_manifest_gives_it(self):
        written = self.check_what_is_read_and_written({v["name"] for v in self.container["env"]})
        claims = self.nodes["spec"]["volumeClaimTemplates"]
        self.assertEqual([c["metadata"]["name"] for c in claims], [written])
        self.assertEqual(self.pod.get("restartPolicy", "Always"), "Always")  # no other is taken

    def evict(self, pod, name, address):
        """As a machine's agent does: what the manifest has it do first, then SIGTERM."""
        *shell, line = self.container["lifecycle"]["preStop"]["exec"]["command"]
        before = self.start([*shell, self.as_here(line, name)], **self.variables(name, address))
        self.assertEqual(before.wait(), 0, before.said())
        if pod.process.poll() is None:
            pod.process.terminate()
        self.assertEqual(pod.wait(self.pod["terminationGracePeriodSeconds"]), 0, pod.said())

    def test_a_pod_that_is_evicted_comes_back_at_another_address_and_goes_on(self):
        running, hosts = self.start_pods()
        said = re.search(r"`kubectl exec (\S+)\s-- ([^`]*status)`", text_of("README.md"))
        pod, look = said.groups()
        told = self.start(self.as_here(look, pod).split())
        self.assertEqual(told.wait(), 0, told.said())
        name = self.pods[-1]
        self.evict(running.pop(), name, hosts[-1])
        out = self.path(name, "disk", name)
        saved = gradients_saved_in(out)
        self.assertGreater(saved, 0)

        back = loopback(len(self.pods) + 1)
        hosts[-1] = back
        running.append(self.start_pod(name, back))
        self.await_pods(running, hosts, saved)
        self.stop_run(hosts[0] + ":7001", self.key)
        for pod in running:
            self.assertEqual(pod.wait(), 0, pod.said())
        self.assertEqual(gone_on_from(out), [saved])
        self.assertEqual(record_in(out)["state"], "finished")
        over = self.start_pod(name, back)  # as `Always` would
        self.assertEqual(over.wait(), 2)
        self.assertIn("holds a run already", over.said())


class JobSet(Pods):
    file = "jobset.yaml"

    def read(self, objects):
        jobset = objects["JobSet"]
        replicated, = jobset["spec"]["replicatedJobs"]
        self.job = replicated["template"]["spec"]
        self.pod = self.job["template"]["spec"]
        network = jobset["spec"]["network"]
        begin = f"{jobset['metadata']['name']}-{replicated['name']}-0"
        self.pods = [f"{begin}-{k}" for k in range(self.job["completions"])]
        self.names = [f"{pod}.{network['subdomain']}" for pod in self.pods]

    def variables(self, pod, address):
        return {**super().variables(pod, address), "JOB_COMPLETION_INDEX": pod.split("-")[-1]}

    def disk_of(self, pod):
        return self.path("disk")  # one for all

    def test_what_a_pod_reads_and_writes_is_what_the_manifest_gives_it(self):
        given = {v["name"] for v in self.container["env"]} | {"JOB_COMPLETION_INDEX"}
        written = self.check_what_is_read_and_written(given)
        claims = {v["name"] for v in self.pod["volumes"] if "persistentVolumeClaim" in v}
        self.assertEqual(claims, {written})
        self.assertEqual(self.job["completionMode"], "Indexed")  # which numbers the pods

    def test_a_pod_that_is_evicted_has_failed_and_one_whose_run_is_over_has_not(self):
        running, hosts = self.start_pods()
        name = self.pods[-1]
        evicted = running.pop()
        evicted.process.terminate()  # the shell alone hears of it
        self.assertEqual(evicted.wait(self.pod["terminationGracePeriodSeconds"]), 75,
                         evicted.said())
        out = self.path("disk", f"node-{len(self.pods) - 1}")
        saved = gradients_saved_in(out)
        running.append(self.start_pod(name, hosts[-1]))
        self.await_pods(running, hosts, saved)
        self.stop_run(hosts[0] + ":7001", self.key)
        for pod in running:
            self.assertEqual(pod.wait(), 0, pod.said())
        self.assertEqual(gone_on_from(out), [saved])
