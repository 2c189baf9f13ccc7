"""A virtual machine without hardware help: starts with an archive, runs commands, and is killed as by a power cut.

Shape:   qemu's emulation, its console in a file, two ports: `commands` for the guest's first process, `program` for what it runs
Failure: a machine that ends or says nothing for too long is an error with the end of its console
"""

import ctypes
import pathlib
import shlex
import signal
import socket
import subprocess

#: Longest wait for any answer: some hundred times what an idle host needs.
ANSWER_S = 300.0
#: What the kernel is told. Mitigations only slow an emulation down.
KERNEL_LINE = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable"


#: prctl(2), `PR_SET_PDEATHSIG`.
PARENT_DEATH_SIGNAL = 1
LIBC = ctypes.CDLL(None)


def end_with_the_tests():
    """A machine does not outlive tests that are killed."""
    LIBC.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


class Failed(AssertionError):
    """A command that failed, or a machine that did."""


class Machine:
    """A running guest."""

    def __init__(self, kernel, archive, console, *hardware, memory="1G", machine="q35"):
        self._console = pathlib.Path(console)
        self._commands, commands = socket.socketpair()
        self._program, program = socket.socketpair()
        ends = {"commands": commands, "program": program}
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        command += ["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", memory, "-machine", machine]
        command += ["-kernel", kernel / "vmlinux", "-initrd", archive, "-append", KERNEL_LINE]
        command += ["-serial", f"file:{console}", "-device", "virtio-serial-pci"]
        for name, end in ends.items():
            command += ["-chardev", f"socket,id={name},fd={end.fileno()}"]
            command += ["-device", f"virtserialport,chardev={name},name={name}"]
        fds = [end.fileno() for end in ends.values()]
        self._process = subprocess.Popen(
            [*command, *hardware], stdin=subprocess.DEVNULL, pass_fds=fds, preexec_fn=end_with_the_tests
        )
        for end in ends.values():
            end.close()
        self._commands.settimeout(ANSWER_S)
        self._program.settimeout(ANSWER_S)
        self._answers = self._commands.makefile("rb")
        self._said = self._program.makefile("rb")
        if self._line() != "ready":
            self.kill()
            raise self._failed("the guest does not begin")

    def run(self, command):
        """Runs one line of shell in the guest; what it printed."""
        status, said = self.ask(command)
        if status != 0:
            raise self._failed(f"status {status} of: {command}\n{said}")
        return said

    def ask(self, command):
        """The same, whatever comes of it: its status and what it printed."""
        assert "\n" not in command
        self._commands.sendall(command.encode() + b"\n")
        words = self._line().split()
        if len(words) != 2:
            raise self._failed(f"no answer to: {command}")
        return int(words[0]), self._answers.read(int(words[1])).decode(errors="replace")

    def start(self, command, **environment):
        """Starts a program whose input and output is the port `program`; it ends with `ended STATUS`, errors go to the console."""
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        program = f"exec 4<>/dev/ports/program; {settings} {command} <&4 >&4 2>/dev/console; echo ended $? >&4"
        self.run(f"({program}) >/dev/null 2>&1 &")

    def tell(self, *lines):
        """Input of that program."""
        self._program.sendall("".join(f"{line}\n" for line in lines).encode())

    def heard(self):
        """Its next line; none once it is over, or the machine."""
        try:
            line = self._said.readline().decode()
        except ConnectionResetError:
            return None
        except TimeoutError:
            raise self._failed(f"nothing for {ANSWER_S} s") from None
        # What was cut off was not said.
        if not line.endswith("\n") or line == "ended 0\n":
            return None
        if line.startswith("ended "):
            raise self._failed(line)
        return line.strip()

    def kill(self):
        """Ends it at once: nothing of the guest runs any more."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self):
        """Ends it in order."""
        self.run("umount -a -t ext4")
        self._commands.sendall(b"poweroff -f\n")
        if self._process.wait(timeout=ANSWER_S) != 0:
            raise self._failed("no end in order")

    def console(self):
        """The end of what the guest said on its console."""
        return self._console.read_text(errors="replace")[-4000:]

    def _line(self):
        try:
            return self._answers.readline().decode().strip()
        except TimeoutError:
            return ""

    def _failed(self, what):
        return Failed(f"{what}\nconsole: {self.console()}")
