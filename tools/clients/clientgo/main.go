// client-go: shared informers with an indexer, a rate-limited queue, leader election, server-side apply.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
)

const objects = 200

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 500
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	lead := make(chan struct{})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "controller", Namespace: "default"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
	}
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(lead) }, OnStoppedLeading: func() {},
		},
	})
	<-lead
	return mirror(ctx, client)
}

// mirror labels every ConfigMap that asks for it, driven by an informer and a queue.
func mirror(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	if err := informer.AddIndexers(cache.Indexers{"done": func(obj any) ([]string, error) {
		return []string{obj.(*corev1.ConfigMap).Labels["done"]}, nil
	}}); err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(obj any) {
		if config := obj.(*corev1.ConfigMap); config.Labels["ask"] == "yes" && config.Labels["done"] != "yes" {
			queue.Add(config.Name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer does not sync")
	}
	for range 4 {
		go func() {
			for {
				name, stop := queue.Get()
				if stop {
					return
				}
				wanted := applycorev1.ConfigMap(name, "default").WithLabels(map[string]string{"done": "yes"})
				if _, err := client.CoreV1().ConfigMaps("default").Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "mirror"}); err != nil {
					queue.AddRateLimited(name)
				}
				queue.Done(name)
			}
		}()
	}
	for number := range objects {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", number), Labels: map[string]string{"ask": "yes"}}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, config, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for {
		found, err := informer.GetIndexer().ByIndex("done", "yes")
		if err != nil {
			return err
		}
		if len(found) == objects {
			queue.ShutDown()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d were seen as done", len(found), objects)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
