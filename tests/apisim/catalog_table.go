// SPDX-License-Identifier: Apache-2.0

package main

// groupPriorities orders groups in the discovery document, highest first.
var groupPriorities = map[string]int{
	"": 18000, "apiregistration.k8s.io": 20001, "apps": 17800, "events.k8s.io": 17750,
	"authentication.k8s.io": 17700, "authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400,
	"certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
	"rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "admissionregistration.k8s.io": 16700,
	"apiextensions.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
	"node.k8s.io": 16300, "discovery.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
	"resource.k8s.io": 15900, "storagemigration.k8s.io": 15800,
}

// catalogTable: what kube-apiservers serve by default; the columns are explained at parseRow.
const catalogTable = `
v1 bindings Binding N - - create - -
v1 componentstatuses ComponentStatus C cs - get,list - -
v1 configmaps ConfigMap N cm - * - -
v1 endpoints Endpoints N ep - * - -
v1 events Event N ev - * - -
v1 limitranges LimitRange N limits - * - -
v1 namespaces Namespace C ns - create,delete,get,list,patch,update,watch finalize,status -
v1 nodes Node C no - * proxy,status -
v1 persistentvolumeclaims PersistentVolumeClaim N pvc - * status -
v1 persistentvolumes PersistentVolume C pv - * status -
v1 pods Pod N po all * attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize>33,status -
v1 podtemplates PodTemplate N - - * - -
v1 replicationcontrollers ReplicationController N rc all * scale,status -
v1 resourcequotas ResourceQuota N quota - * status -
v1 secrets Secret N - - * - -
v1 serviceaccounts ServiceAccount N sa - * token -
v1 services Service N svc all * proxy,status -
apiregistration.k8s.io/v1 apiservices APIService C - api-extensions * status -
apps/v1 controllerrevisions ControllerRevision N - - * - -
apps/v1 daemonsets DaemonSet N ds all * status -
apps/v1 deployments Deployment N deploy all * scale,status -
apps/v1 replicasets ReplicaSet N rs all * scale,status -
apps/v1 statefulsets StatefulSet N sts all * scale,status -
events.k8s.io/v1 events Event N ev - * - -
events.k8s.io/v1beta1 events Event N ev - * - -24
authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview C - - create - 28-
authentication.k8s.io/v1 tokenreviews TokenReview C - - create - -
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview N - - create - -
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview C - - create - -
authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview C - - create - -
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview C - - create - -
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler N hpa all * status -
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler N hpa all * status -
autoscaling/v2beta1 horizontalpodautoscalers HorizontalPodAutoscaler N hpa all * status -24
autoscaling/v2beta2 horizontalpodautoscalers HorizontalPodAutoscaler N hpa all * status -25
batch/v1 cronjobs CronJob N cj all * status -
batch/v1 jobs Job N - all * status -
batch/v1beta1 cronjobs CronJob N cj all * status -24
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest C csr - * approval,status -
networking.k8s.io/v1 ingressclasses IngressClass C - - * - -
networking.k8s.io/v1 ingresses Ingress N ing - * status -
networking.k8s.io/v1 ipaddresses IPAddress C ip - * - 33-
networking.k8s.io/v1 networkpolicies NetworkPolicy N netpol - * - -
networking.k8s.io/v1 servicecidrs ServiceCIDR C - - * status 33-
policy/v1 poddisruptionbudgets PodDisruptionBudget N pdb - * status -
policy/v1beta1 poddisruptionbudgets PodDisruptionBudget N pdb - * status -24
policy/v1beta1 podsecuritypolicies PodSecurityPolicy C psp - * - -24
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding C - - * - -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole C - - * - -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding N - - * - -
rbac.authorization.k8s.io/v1 roles Role N - - * - -
storage.k8s.io/v1 csidrivers CSIDriver C - - * - -
storage.k8s.io/v1 csinodes CSINode C - - * - -
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity N - - * - -
storage.k8s.io/v1 storageclasses StorageClass C sc - * - -
storage.k8s.io/v1 volumeattachments VolumeAttachment C - - * status -
storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass C vac - * - 34-
storage.k8s.io/v1beta1 csistoragecapacities CSIStorageCapacity N - - * - -26
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration C - api-extensions * - -
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy C - api-extensions * status 30-
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding C - api-extensions * - 30-
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration C - api-extensions * - -
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition C crd,crds api-extensions * status -
scheduling.k8s.io/v1 priorityclasses PriorityClass C pc - * - -
coordination.k8s.io/v1 leases Lease N - - * - -
node.k8s.io/v1 runtimeclasses RuntimeClass C - - * - -
discovery.k8s.io/v1 endpointslices EndpointSlice N - - * - -
discovery.k8s.io/v1beta1 endpointslices EndpointSlice N - - * - -24
flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema C - - * status 29-
flowcontrol.apiserver.k8s.io/v1 prioritylevelconfigurations PriorityLevelConfiguration C - - * status 29-
flowcontrol.apiserver.k8s.io/v1beta3 flowschemas FlowSchema C - - * status 26-31
flowcontrol.apiserver.k8s.io/v1beta3 prioritylevelconfigurations PriorityLevelConfiguration C - - * status 26-31
flowcontrol.apiserver.k8s.io/v1beta2 flowschemas FlowSchema C - - * status 23-28
flowcontrol.apiserver.k8s.io/v1beta2 prioritylevelconfigurations PriorityLevelConfiguration C - - * status 23-28
flowcontrol.apiserver.k8s.io/v1beta1 flowschemas FlowSchema C - - * status -25
flowcontrol.apiserver.k8s.io/v1beta1 prioritylevelconfigurations PriorityLevelConfiguration C - - * status -25
resource.k8s.io/v1 deviceclasses DeviceClass C - - * - 34-
resource.k8s.io/v1 resourceclaims ResourceClaim N - - * status 34-
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate N - - * - 34-
resource.k8s.io/v1 resourceslices ResourceSlice C - - * - 34-
storagemigration.k8s.io/v1 storageversionmigrations StorageVersionMigration C - - * status 37-
`
