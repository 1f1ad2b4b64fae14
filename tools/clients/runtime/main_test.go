// controller-runtime with its envtest package, pointed at the hub: install a definition, run a manager, reconcile.
package runtime

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var toy = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func definition() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: toy.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: toy.Kind, Plural: "widgets"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: toy.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
}

// reconciler makes a ConfigMap owned by each widget and says so in its status.
type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(toy)
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: request.Name, Namespace: request.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Data = map[string]string{"made": "yes"}
		return controllerutil.SetControllerReference(widget, config, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	before := widget.DeepCopy()
	_ = unstructured.SetNestedField(widget.Object, "ready", "status", "phase")
	return ctrl.Result{}, r.Status().Patch(ctx, widget, client.MergeFrom(before))
}

func TestReconcile(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	existing := true
	env := &envtest.Environment{UseExistingCluster: &existing, Config: config, CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}}
	if _, err = env.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = env.Stop() }()
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(toy)
	if err = ctrl.NewControllerManagedBy(manager).Named("widgets").For(widget).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{manager.GetClient()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	go func() { _ = manager.Start(ctx) }()
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	made.SetGroupVersionKind(toy)
	made.SetName("a")
	made.SetNamespace("default")
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err = direct.Create(ctx, made); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the status says ready", func() bool {
		_ = direct.Get(ctx, client.ObjectKeyFromObject(made), made)
		phase, _, _ := unstructured.NestedString(made.Object, "status", "phase")
		return phase == "ready"
	})
	if err = direct.Delete(ctx, made); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "what it owned is collected", func() bool {
		return client.IgnoreNotFound(direct.Get(ctx, client.ObjectKeyFromObject(made), &corev1.ConfigMap{})) == nil &&
			direct.Get(ctx, client.ObjectKeyFromObject(made), &corev1.ConfigMap{}) != nil
	})
}

func until(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
