// Package api is what a user of kubebuilder writes: types and markers; controller-gen makes the definition of them.
// +groupName=shop.example.com
// +versionName=v1
package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OrderSpec is what a customer wants.
// +kubebuilder:validation:XValidation:rule="self.maximum >= self.minimum",message="the maximum must not be below the minimum"
type OrderSpec struct {
	// Size of the order.
	// +kubebuilder:validation:Enum=Small;Large
	// +kubebuilder:default=Small
	Size string `json:"size,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1
	Minimum int32 `json:"minimum,omitempty"`
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=10
	Maximum int32 `json:"maximum,omitempty"`
	// +kubebuilder:validation:Pattern=`^[a-z]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the customer is immutable"
	Customer string `json:"customer"`
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Items []Item `json:"items,omitempty"`
}

// Item is one line of an order.
type Item struct {
	Name  string `json:"name"`
	Count int32  `json:"count,omitempty"`
}

// OrderStatus is how far an order is.
type OrderStatus struct {
	Replicas   int32              `json:"replicas,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Order is one order.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ord,categories=all
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Customer",type=string,JSONPath=`.spec.customer`
// +kubebuilder:selectablefield:JSONPath=`.spec.size`
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OrderSpec   `json:"spec"`
	Status            OrderStatus `json:"status,omitempty"`
}

// OrderList is many of them.
// +kubebuilder:object:root=true
type OrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Order `json:"items"`
}
