"""A worker process of the local engine: ``python -m fewcap.features.worker``.

Reads the configuration and then one unit of videos a line from its input. Answers with a line of JSON for each video
it begins and each unit it has done, the latter followed by the bytes of the result.
"""

from __future__ import annotations

import json
import os
import sys

from fewcap.core.config.features import FeaturesConfig


def main() -> None:
    # The results own the standard output; whatever a library prints goes to the standard error.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    config = FeaturesConfig.model_validate_json(sys.stdin.readline())
    import av
    import torch

    from fewcap.features.compute import Computer, Job, pack

    torch.set_num_threads(1)  # one core a worker
    av.logging.set_level(None)
    computer = Computer(config)
    limit_memory(config.memory_limit)

    def say(message: dict[str, object], content: bytes = b"") -> None:
        try:
            answers.write(json.dumps(message).encode() + b"\n" + content)
            answers.flush()
        except BrokenPipeError:
            os._exit(1)  # whoever wanted the answer is gone

    say({"ready": True})
    for line in sys.stdin:
        unit = json.loads(line)
        jobs = [Job(**job) for job in unit["jobs"]]
        content = pack(computer.run(jobs, lambda video: say({"began": video})))
        say({"unit": unit["unit"], "bytes": len(content)}, content)


def limit_memory(megabytes: int) -> None:
    """Lets the process allocate that much more than it has now, where the system can limit it."""
    try:
        import resource

        with open("/proc/self/status", encoding="ascii") as status:
            used = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (used + megabytes * 2**20, resource.RLIM_INFINITY))
    except (ImportError, OSError, StopIteration, ValueError):
        return  # no such limits here: those on pixels, duration and time still hold


if __name__ == "__main__":
    main()
