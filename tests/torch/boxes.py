"""Runs the box "The same in PyTorch" of every lesson, exactly as the Markdown shows it.

    boxes.py WORK [LESSON.md ...]

A box is the only block of Python below that heading; it has at most 15 lines and at most 110 columns. It runs in two
processes, and if it mentions their number also in four. They get the environment that torchrun would set, but are
forked from this process, which has imported PyTorch once; a box that restarts is run by torchrun itself. A box states
what it shows by `assert`.
"""
import glob
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun sets it
try:
    import torch
    import torch.distributed.optim
except ImportError:
    print("test-torch: the boxes of the lessons are not run: PyTorch is missing (Debian: python3-torch)")
    sys.exit(os.environ.get("GRADSUM_TORCH") == "required")

SECONDS = 300  # of a box; they take less than one
HEADING = "## The same in PyTorch\n"


def box_of(path):
    with open(path) as f:
        text = f.read()
    section = text.split(HEADING)[1].split("\n## ")[0] if text.count(HEADING) == 1 else ""
    boxes = re.findall(r"^```python\n(.*?)^```$", section, re.S | re.M)
    if len(boxes) != 1:
        raise ValueError("%s: wanted one block of Python below '%s', found %d" % (path, HEADING.strip(), len(boxes)))
    lines = boxes[0].splitlines()
    if len(lines) > 15 or max(map(len, lines)) > 110:
        raise ValueError("%s: the box has %d lines, the longest %d columns; wanted at most 15 and 110" % (
            path, len(lines), max(map(len, lines))))
    return boxes[0]


def store_main(to, size):
    """The ranks find each other here, as they do in torchrun's agent: rank 0 may end before the others."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, size, True, wait_for_workers=False)
    to.send(store.port)
    signal.pause()


def rank_main(text, folder, environment):
    os.chdir(folder)
    os.environ.update(environment)
    output = os.open("output" + environment["RANK"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1), os.dup2(output, 2)
    try:
        exec(compile(text, "box", "exec"), {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(status)


def run_forked(text, folder, size):
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    store = fork.Process(target=store_main, args=(there, size))
    store.start()
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(here.recv()), "TORCHELASTIC_USE_AGENT_STORE": "True",
              "TORCHELASTIC_RESTART_COUNT": "0",
              "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    ranks = [fork.Process(target=rank_main, args=(text, folder, {**common, "RANK": str(r), "LOCAL_RANK": str(r)}))
             for r in range(size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
    store.kill()
    store.join()
    return all(process.exitcode == 0 for process in ranks)


def run_torchrun(text, folder):
    with open(os.path.join(folder, "box.py"), "w") as f:
        f.write(text)
    with open(os.path.join(folder, "output"), "w") as output:
        # PyTorch before 2 fails on Python 3.11 without --redirects and --tee (tests/system/engines.sh).
        return subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                               "--max_restarts", "1", "--redirects", "1", "--tee", "1", "--log_dir", "logs", "box.py"],
                              cwd=folder, stdout=output, stderr=subprocess.STDOUT, timeout=SECONDS).returncode == 0


def passes(name, text, work):
    for size in (2, 4) if "world_size()" in text else (2,):
        folder = os.path.join(work, "%s-%d" % (name, size))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        restarts = "--max_restarts" in text
        if not (run_torchrun(text, folder) if restarts else run_forked(text, folder, size)):
            print("boxes.py: the box of lesson %s fails with %d processes" % (name, size))
            for output in sorted(glob.glob(folder + "/output*")):
                with open(output) as f:
                    print("%s:\n%s" % (output, f.read()))
            return False
    return True


def main(work, paths):
    if os.path.isdir(work):
        shutil.rmtree(work)
    os.makedirs(work)
    wrong = "import torch.distributed as dist\ndist.init_process_group('gloo')\nassert dist.get_rank() == 0\n"
    sys.stdout.flush()
    if run_forked(wrong, work, 2):
        sys.exit("boxes.py: a box whose rank 1 fails passes")
    failed = 0
    for path in paths:
        try:
            failed += not passes(os.path.basename(os.path.dirname(path)), box_of(path), work)
        except (ValueError, subprocess.TimeoutExpired) as e:
            print("boxes.py: %s" % e)
            failed += 1
        sys.stdout.flush()
    print("boxes: PyTorch %s runs %d of %d" % (torch.__version__, len(paths) - failed, len(paths)))
    sys.exit(failed > 0)


main(sys.argv[1], sys.argv[2:] or sorted(glob.glob("lessons/[0-9][0-9]-*/README.md")))
