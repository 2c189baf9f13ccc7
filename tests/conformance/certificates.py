"""Certificates for one test run, made by the openssl command: an authority, and what it signs."""

import pathlib
import subprocess

CONFIG = """
[req]
distinguished_name = dn
prompt = no
[dn]
CN = {name}
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[leaf]
basicConstraints = critical, CA:FALSE
subjectAltName = {alternatives}
"""


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder, name="authority"):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.certificate, self.key = self._make(name, "ca", "DNS:unused.example", ())

    def issue(self, name, alternatives="DNS:localhost,IP:127.0.0.1", file=None):
        """(certificate, key) of a holder with that common name."""
        signer = ("-CA", self.certificate, "-CAkey", self.key)
        return self._make(name, "leaf", alternatives, signer, file)

    def _make(self, name, extensions, alternatives, signer, file=None):
        base = self.folder / (file or name)
        config = base.with_suffix(".cnf")
        config.write_text(CONFIG.format(name=name, alternatives=alternatives))
        certificate, key = base.with_suffix(".pem"), base.with_suffix(".key")
        command = ["openssl", "req", "-x509", "-config", config, "-extensions", extensions, "-days", "30"]
        command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-keyout", key, "-out", certificate, *signer]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        return certificate, key
