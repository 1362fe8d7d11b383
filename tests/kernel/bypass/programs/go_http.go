// SPDX-License-Identifier: Apache-2.0

// go_http serve ADDRESS | go_http ask URL SECONDS: net/http with connections that are kept.
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func serve(address string) {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "%x", sha256.Sum256(body))
	})
	log.Fatal(http.ListenAndServe(address, nil))
}

func ask(url string, seconds int) {
	until := time.Now().Add(time.Duration(seconds) * time.Second)
	var wait sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		wait.Add(1)
		go func(worker int) {
			defer wait.Done()
			client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			for n := 0; time.Now().Before(until); n++ {
				body := bytes.Repeat([]byte{byte(n)}, 1+n*37*(worker+1)%60000)
				answer, err := client.Post(url, "application/octet-stream", bytes.NewReader(body))
				if err != nil {
					log.Fatal(err)
				}
				said, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil || string(said) != fmt.Sprintf("%x", sha256.Sum256(body)) {
					log.Fatalf("request %d: %v %s", n, err, said)
				}
			}
		}(worker)
	}
	wait.Wait()
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	seconds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	ask(os.Args[2], seconds)
}
