"""Checks deploy/compose: the file against the specification, and that its parts fit together."""

import pathlib
import subprocess
import sys
import tempfile

import yaml

FOLDER = pathlib.Path("deploy/compose")


def main():
    file = FOLDER / "compose.yaml"
    check = pathlib.Path(sys.executable).with_name("check-jsonschema")
    subprocess.run([check, "--builtin-schema", "vendor.compose-spec", file], check=True)
    compose = yaml.safe_load(file.read_text())

    secrets = set(compose["secrets"])
    for name, service in compose["services"].items():
        unknown = set(service.get("secrets", [])) - secrets
        assert not unknown, f"{name} uses undeclared secrets: {unknown}"
        for other in service.get("depends_on", {}):
            assert "healthcheck" in compose["services"][other], f"{other} has no healthcheck"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            known = source in compose["volumes"] or (FOLDER / source).is_file()
            assert known, f"{name}: no volume or file {source}"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} publishes {port} to other machines"
    server = compose["services"]["toolcrib"]
    assert server["read_only"] and server["cap_drop"] == ["ALL"]

    # Every file of the script is a secret of the file, and the configuration names no other.
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "secrets.sh")
        script.write_bytes((FOLDER / "secrets.sh").read_bytes())
        for _ in range(2):
            subprocess.run(["sh", script], check=True)
        made = {path.name: path.read_text() for path in pathlib.Path(folder, "secrets").iterdir()}
        assert set(made) == secrets, f"secrets.sh makes {set(made)} instead of {secrets}"
        text = (FOLDER / "toolcrib.toml").read_text()
        text = text.replace("/run/secrets/", f"{folder}/secrets/")
        assert text.count(f"{folder}/secrets/") == len(server["secrets"])
        configuration = pathlib.Path(folder, "toolcrib.toml")
        configuration.write_text(text)
        program = sys.argv[1]
        subprocess.run([program, "config", "check", configuration], check=True)
    print("deploy/compose: ok")


main()
