"""Checks deploy/helm/toolcrib with Helm's own library.

Helm lints the chart and installs it, with different values, into a small stand-in for a Kubernetes server,
which keeps what Helm sends. The objects are then checked against the schemas of Kubernetes, and
toolcrib.toml by the program.
"""

import asyncio
import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

import helm_sdkpy
import kubernetes_validate

CHART = "deploy/helm/toolcrib"
KUBERNETES = "1.34"

# Groups, and the names of their objects in paths.
KINDS = {
    "v1": ["configmaps", "secrets", "services", "serviceaccounts"],
    "apps/v1": ["deployments", "statefulsets"],
    "networking.k8s.io/v1": ["ingresses", "networkpolicies"],
    "policy/v1": ["poddisruptionbudgets"],
    "monitoring.coreos.com/v1": ["servicemonitors"],
}
NAMES = {
    "configmaps": "ConfigMap", "secrets": "Secret", "services": "Service",
    "serviceaccounts": "ServiceAccount", "deployments": "Deployment",
    "statefulsets": "StatefulSet", "ingresses": "Ingress", "networkpolicies": "NetworkPolicy",
    "poddisruptionbudgets": "PodDisruptionBudget", "servicemonitors": "ServiceMonitor",
}

POSTGRES = {
    "replicas": 3,
    "store": {
        "engine": "postgres",
        "url": "postgres://toolcrib@db.example/toolcrib",
        "passwordSecret": {"name": "db", "key": "password"},
    },
    "keys": {"secret": "toolcrib-keys"},
    "limits": {"shared": "redis://cache.example:6379", "passwordSecret": {"name": "cache", "key": "password"}},
    "server": {"allowedHosts": ["tools.example.com"]},
    "config": '[[role]]\nname = "reader"\nscopes = ["files:read"]\n',
    "secretFiles": [{"secret": "upstreams", "path": "upstreams"}],
    "ingress": {"enabled": True, "host": "tools.example.com", "tlsSecret": "tools-tls", "className": "nginx"},
    "serviceMonitor": {"enabled": True, "keySecret": {"name": "metrics", "key": "key"}},
    "networkPolicy": {"enabled": True, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
}

OWN_TLS = {
    **POSTGRES,
    "server": {"allowedHosts": ["tools.example.com"], "tlsSecret": "server-tls"},
    "serviceMonitor": {**POSTGRES["serviceMonitor"], "tlsConfig": {"serverName": "tools.example.com"}},
}

# Values with the text that the refusal must contain.
REFUSED = [
    ({"replicas": 2}, "replicas"),
    ({"replica": 1}, "replica"),
    ({"store": {"engine": "mysql"}}, "engine"),
    ({"store": {"engine": "postgres"}}, "url"),
    ({"store": {"engine": "postgres", "url": "postgres://toolcrib:secret@db/toolcrib"}}, "url"),
    ({**POSTGRES, "keys": {"secret": ""}}, "secret"),
    ({"ingress": {"enabled": True}}, "host"),
    ({"serviceMonitor": {"enabled": True}}, "keySecret"),
    ({"secretFiles": [{"secret": "x", "path": "../etc"}]}, "path"),
    ({"secretFiles": [{"secret": "x", "path": "tls"}]}, "path"),
]


class Kubernetes(http.server.BaseHTTPRequestHandler):
    """Answers the requests of an installation. `objects` has what was created."""

    objects = {}
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def write(self, key, status):
        """Keeps an object and answers with it. Helm's own notes come in a binary form, and are not kept."""
        data = self.rfile.read(int(self.headers["content-length"]))
        if "json" in self.headers["content-type"]:
            created = json.loads(data)
            self.objects[key(created)] = created
        self.send_response(status)
        self.send_header("content-type", self.headers["content-type"])
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        path = self.path.split("?")[0].rstrip("/")
        if path == "/version":
            return self.answer({"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
        if path == "/api":
            return self.answer({"kind": "APIVersions", "versions": ["v1"]})
        if path == "/apis":
            groups = []
            for group in KINDS:
                if "/" in group:
                    version = {"groupVersion": group, "version": group.split("/")[1]}
                    groups.append({"name": group.split("/")[0], "versions": [version], "preferredVersion": version})
            return self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        group = re.fullmatch(r"/apis?/([^/]+(?:/v1)?)", path)
        if group and group[1] in KINDS:
            resources = [
                {"name": name, "singularName": "", "namespaced": True, "kind": NAMES[name],
                 "verbs": ["create", "get", "list", "patch", "delete"]}
                for name in KINDS[group[1]]
            ]
            return self.answer(
                {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group[1], "resources": resources})
        if path in self.objects:
            return self.answer(self.objects[path])
        if path.rsplit("/", 1)[-1] in NAMES:
            kind = NAMES[path.rsplit("/", 1)[-1]]
            items = [it for key, it in self.objects.items() if key.startswith(path + "/")]
            return self.answer({"kind": kind + "List", "apiVersion": "v1", "metadata": {}, "items": items})
        return self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                            "reason": "NotFound", "code": 404}, 404)

    def do_POST(self):
        folder = self.path.split("?")[0]
        self.write(lambda created: f"{folder}/{created['metadata']['name']}", 201)

    def do_PUT(self):
        self.write(lambda _: self.path.split("?")[0], 200)


def install(values):
    """Returns the objects of an installation by their kinds. Raises with Helm's message."""
    Kubernetes.objects = {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kubernetes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cluster = {"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    kubeconfig = {
        "apiVersion": "v1", "kind": "Config", "current-context": "test", "clusters": [cluster],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "tools"}}],
    }
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(kubeconfig, file)
            file.flush()
            config = helm_sdkpy.Configuration(namespace="tools", kubeconfig=file.name)
            asyncio.run(helm_sdkpy.Install(config).run("crib", CHART, values=values, wait=False))
    finally:
        server.shutdown()
        server.server_close()
    objects = {}
    for found in Kubernetes.objects.values():
        objects[found["kind"]] = found
    return objects


def valid(objects):
    for kind, found in objects.items():
        if kind != "ServiceMonitor":  # not a kind of Kubernetes itself
            kubernetes_validate.validate(found, KUBERNETES, strict=True)


def restricted(workload):
    """The rules of the Pod Security Standard `restricted`, and a read-only root."""
    pod = workload["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert pod["automountServiceAccountToken"] is False
    for volume in pod["volumes"]:
        assert {"configMap", "emptyDir", "secret"} & set(volume), volume
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] >= sleep + 30
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    assert mounted == {volume["name"] for volume in pod["volumes"]} | claims
    return container


def certificate(file):
    """Writes a certificate, and its key next to it."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-subj", "/CN=tools.example.com", "-out", file,
                    "-keyout", file.with_suffix(".key")], check=True, capture_output=True)


def scheme(objects):
    """The scheme that everything uses which sends requests to the server."""
    (workload,) = [objects[kind] for kind in ("Deployment", "StatefulSet") if kind in objects]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found = {container[probe]["httpGet"]["scheme"].lower()
             for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    found |= {port["appProtocol"] for port in objects["Service"]["spec"]["ports"]}
    if "ServiceMonitor" in objects:
        found |= {endpoint["scheme"] for endpoint in objects["ServiceMonitor"]["spec"]["endpoints"]}
    if "Ingress" in objects:
        protocol = "nginx.ingress.kubernetes.io/backend-protocol"
        found.add(objects["Ingress"]["metadata"]["annotations"].get(protocol, "HTTP").lower())
    (found,) = found
    return found


def configured(objects, container, program):
    """The program accepts toolcrib.toml, whose secrets are all mounted."""
    text = objects["ConfigMap"]["data"]["toolcrib.toml"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    with tempfile.TemporaryDirectory() as folder:
        for path in re.findall(r'= "(/run/secrets/[^"]+)"', text):
            assert any(path.startswith(mount + "/") for mount in mounts), f"{path} is not mounted"
            file = pathlib.Path(folder + path)
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".crt":
                certificate(file)
            if file.exists():
                continue
            key = subprocess.run(["openssl", "rand", "-base64", "32"], check=True, capture_output=True)
            file.write_bytes(key.stdout)
        file = pathlib.Path(folder, "toolcrib.toml")
        file.write_text(text.replace("/run/secrets/", f"{folder}/run/secrets/"))
        subprocess.run([program, "config", "check", file], check=True)


def main(program):
    found = asyncio.run(helm_sdkpy.Lint(helm_sdkpy.Configuration(namespace="tools")).run(CHART))
    # 1 is information: a chart without an icon.
    assert found["TotalChartsLinted"] == 1 and not found["Errors"], found
    assert all(message["Severity"] <= 1 for message in found["Messages"] or []), found

    objects = install({})
    assert set(objects) == {"ConfigMap", "Service", "ServiceAccount", "StatefulSet"}, set(objects)
    valid(objects)
    assert objects["StatefulSet"]["spec"]["replicas"] == 1
    configured(objects, restricted(objects["StatefulSet"]), program)
    assert scheme(objects) == "http"
    checksum = "checksum/config"
    first = objects["StatefulSet"]["spec"]["template"]["metadata"]["annotations"][checksum]

    objects = install({"config": '[gate]\nrate = "60/m"\n', "podAnnotations": {"a": "b"}})
    annotations = objects["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations[checksum] != first and annotations["a"] == "b"

    objects = install(POSTGRES)
    expected = {"ConfigMap", "Deployment", "Ingress", "NetworkPolicy", "PodDisruptionBudget",
                "Service", "ServiceAccount", "ServiceMonitor"}
    assert set(objects) == expected, set(objects)
    valid(objects)
    assert objects["Deployment"]["spec"]["replicas"] == 3
    configured(objects, restricted(objects["Deployment"]), program)
    assert scheme(objects) == "http"
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    for selector in [objects["Service"]["spec"]["selector"],
                     objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                     objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]]:
        assert selector.items() <= labels, selector
    assert objects["ServiceMonitor"]["spec"]["endpoints"][0]["authorization"]["credentials"]["name"] == "metrics"

    objects = install(OWN_TLS)
    valid(objects)
    assert scheme(objects) == "https"
    configured(objects, restricted(objects["Deployment"]), program)
    assert objects["ServiceMonitor"]["spec"]["endpoints"][0]["tlsConfig"]["serverName"] == "tools.example.com"
    annotations = objects["Ingress"]["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-buffering"] == "off", annotations

    for values, text in REFUSED:
        try:
            install(values)
        except helm_sdkpy.HelmError as error:
            assert text in str(error), f"{values}: {error}"
        else:
            raise AssertionError(f"accepted: {values}")
    print(f"{CHART}: ok, {len(REFUSED)} mistakes refused")


main(sys.argv[1])
