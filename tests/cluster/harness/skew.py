# SPDX-License-Identifier: Apache-2.0
"""What some servers of a cluster serve and others do not, and how to ask for it."""


class Skew:
    """One resource: its group, version, name and kind, the spec of an object of it, and the nodes that lack it."""

    def __init__(self, group_version, resource, kind, spec, lacking, namespace=None):
        self.group_version = group_version
        self.group, self.version = group_version.split("/")
        self.resource = resource
        self.kind = kind
        self.spec = spec
        self.lacking = tuple(lacking)
        self.namespace = namespace

    @property
    def everywhere(self):
        """The path of all objects of it, in whatever namespace."""
        return "/apis/%s/%s" % (self.group_version, self.resource)

    @property
    def collection(self):
        """The path under which thing() is created."""
        if self.namespace is None:
            return self.everywhere
        return "/apis/%s/namespaces/%s/%s" % (self.group_version, self.namespace, self.resource)

    @property
    def full_name(self):
        """As kubectl api-resources has it."""
        return "%s.%s" % (self.resource, self.group)

    @property
    def kubectl(self):
        """As kubectl takes it, so that no other version of it can be meant."""
        return "%s.%s.%s" % (self.resource, self.version, self.group)

    def thing(self, name, labels=None):
        return {"apiVersion": self.group_version, "kind": self.kind,
                "metadata": {"name": name, "labels": labels or {}}, "spec": self.spec}


def device_classes(*lacking):
    """Kubernetes 1.34 serves them in v1, 1.33 does not."""
    return Skew("resource.k8s.io/v1", "deviceclasses", "DeviceClass",
                {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}, lacking)


def job_spec():
    """Suspended: there is no controller that would run it, and no need for one."""
    return {"suspend": True, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none"}]}}}


def jobs(*lacking, namespace="default"):
    """Jobs, where NO_JOBS is among the flags of the nodes that lack them."""
    return Skew("batch/v1", "jobs", "Job", job_spec(), lacking, namespace)


def cron_jobs(*lacking):
    """The same group and version. Unlike Jobs, deleted ones are gone at once, with no garbage collector there."""
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": job_spec()["template"]}}}
    return Skew("batch/v1", "cronjobs", "CronJob", spec, lacking, "default")


NO_JOBS = "--runtime-config=batch/v1=false"


def disruption_budgets(*lacking):
    """Where NO_BUDGETS is among the flags of the nodes that lack them."""
    return Skew("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget",
                {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}}, lacking, "default")


NO_JOBS_NO_BUDGETS = NO_JOBS + ",policy/v1=false"
NO_BUDGETS = "--runtime-config=policy/v1=false"


def migrations(*lacking):
    """Kubernetes 1.37 serves them in v1, 1.36 does not."""
    return Skew("storagemigration.k8s.io/v1", "storageversionmigrations", "StorageVersionMigration",
                {"resource": {"group": "", "resource": "configmaps"}}, lacking)


def taint_rules(*lacking):
    """Kubernetes 1.37 serves them in v1, 1.36 has that group and version without them."""
    return Skew("resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule",
                {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "example.com/broken", "effect": "NoSchedule"}},
                lacking)
