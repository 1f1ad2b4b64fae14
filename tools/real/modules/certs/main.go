// Command certs makes the keys and certificates of a lab.
//
// It exists because the oracle needs them before anything else runs, on machines where neither
// openssl nor a Python package for it is promised; Go is there anyway, since it builds the rest.
//
// It reads one JSON document from standard input, {"dir": ..., "hosts": [...], "certs": [{"name",
// "cn", "org", "server"}]}, and writes ca.crt, ca.key, service-account.key, service-account.pub and
// NAME.crt and NAME.key for each certificate. What is there already is kept, so that a lab can grow
// by members without changing the identity of those that run.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 365 * 24 * time.Hour

type certificate struct {
	Name   string `json:"name"`
	CN     string `json:"cn"`
	Org    string `json:"org"`
	Server bool   `json:"server"`
}

type request struct {
	Dir   string        `json:"dir"`
	Hosts []string      `json:"hosts"`
	Certs []certificate `json:"certs"`
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "certs:", err)
		os.Exit(1)
	}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	if err := os.MkdirAll(asked.Dir, 0o700); err != nil {
		return err
	}
	ca, err := loadOrMakeAuthority(asked.Dir)
	if err != nil {
		return err
	}
	if err := makeServiceAccountKey(asked.Dir); err != nil {
		return err
	}
	for _, cert := range asked.Certs {
		if err := makeCertificate(asked, cert, ca); err != nil {
			return fmt.Errorf("%s: %w", cert.Name, err)
		}
	}
	return nil
}

// writePEM writes a file that only its owner can read, under its final name only when complete.
func writePEM(path, kind string, der []byte) error {
	partial := path + ".partial"
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(partial, text, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM block in " + path)
	}
	return block.Bytes, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func serial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

func loadOrMakeAuthority(dir string) (*authority, error) {
	certPath, keyPath := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if !exists(certPath) {
		if err := makeAuthority(certPath, keyPath); err != nil {
			return nil, err
		}
	}
	certDER, err := readPEM(certPath)
	if err != nil {
		return nil, err
	}
	keyDER, err := readPEM(keyPath)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, err
	}
	return &authority{cert, key}, nil
}

func makeAuthority(certPath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	number, err := serial()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber:          number,
		Subject:               pkix.Name{CommonName: "echelon-lab-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(keyPath, "EC PRIVATE KEY", keyDER); err != nil {
		return err
	}
	return writePEM(certPath, "CERTIFICATE", der)
}

// makeServiceAccountKey makes an RSA pair: tokens signed by it look like those of usual clusters.
func makeServiceAccountKey(dir string) error {
	keyPath, publicPath := filepath.Join(dir, "service-account.key"), filepath.Join(dir, "service-account.pub")
	if exists(publicPath) {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(keyPath, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)); err != nil {
		return err
	}
	return writePEM(publicPath, "PUBLIC KEY", public)
}

func makeCertificate(asked request, cert certificate, ca *authority) error {
	certPath := filepath.Join(asked.Dir, cert.Name+".crt")
	if exists(certPath) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := describe(asked, cert)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(asked.Dir, cert.Name+".key"), "EC PRIVATE KEY", keyDER); err != nil {
		return err
	}
	return writePEM(certPath, "CERTIFICATE", der)
}

// describe fills in the template: every certificate can act as a client, some also as a server.
func describe(asked request, cert certificate) (*x509.Certificate, error) {
	number, err := serial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number,
		Subject:      pkix.Name{CommonName: cert.CN},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if cert.Org != "" {
		template.Subject.Organization = []string{cert.Org}
	}
	if !cert.Server {
		return template, nil
	}
	template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	for _, host := range asked.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template, nil
}
